"""Reads pip's output: what it does now, and why it failed.

Text in, text out. Running pip, files and terminals never belong here.
"""

from __future__ import annotations

import re

NO_MATCH = re.compile(
    r"(?:No matching distribution found for|Could not find a version that satisfies the requirement) ([^\s;(]+)",
    re.IGNORECASE,
)
NETWORK = re.compile(
    r"Temporary failure in name resolution|Name or service not known|NewConnectionError|ConnectTimeout|"
    r"Network is unreachable|Connection refused|Failed to establish a new connection|getaddrinfo failed|"
    r"ReadTimeoutError|Max retries exceeded|ProxyError|SSLError|CERTIFICATE_VERIFY_FAILED|IncompleteRead",
    re.IGNORECASE,
)
CERTIFICATE = re.compile(r"CERTIFICATE_VERIFY_FAILED|SSLError", re.IGNORECASE)
DISK = re.compile(r"No space left on device|Disk quota exceeded|Errno 28|Errno 122", re.IGNORECASE)
COMPILER = re.compile(
    r"command '?[\w/.+-]*(?:gcc|g\+\+|cc|clang)[\w.+-]*'? failed|unable to execute '?[\w.+-]*(?:gcc|g\+\+|cc)|"
    r"No CMAKE_C(?:XX)?_COMPILER|Unknown compiler\(s\)|error: Microsoft|can't find Rust compiler",
    re.IGNORECASE,
)
MEMORY = re.compile(r"MemoryError|Cannot allocate memory", re.IGNORECASE)
PERMISSION = re.compile(r"Permission denied: '?([^'\n]+)|Read-only file system", re.IGNORECASE)

_COLLECT = re.compile(r"^\s*Collecting ([A-Za-z0-9._-]+)")
_DOWNLOAD = re.compile(r"^\s*Downloading (?:\S*/)?([^\s/]+?)(?:-\d\S*)? \(([\d.]+ ?[kMG]?B)\)")
_CACHED = re.compile(r"^\s*(?:Using cached|Processing) (?:\S*/)?([A-Za-z0-9_.]+?)-\d")
_NOISE = re.compile(r"^\s*(?:\[notice\]|WARNING: |note: |hint: |╰|│|×|$)", re.IGNORECASE)


def activity(line: str) -> str | None:
    """What pip does now, said of one line of its output; None when the line says nothing new."""
    if match := _DOWNLOAD.match(line):
        return f"downloading {match[1]} ({match[2]})"
    if match := _CACHED.match(line):
        return f"taking {match[1]} from this machine"
    if match := _COLLECT.match(line):
        return f"looking for {match[1]}"
    text = line.strip()
    if text.startswith("Installing collected packages:"):
        return f"unpacking {text.count(',') + 1} packages"
    if text.startswith(("Building wheel", "Preparing metadata", "Installing build dependencies")):
        return "building " + (text.split(" for ")[1].split()[0] if " for " in text else "a package")
    return None


def lacks_torch(log: str) -> bool:
    """Whether pip failed because no configured index holds the CPU build of torch."""
    return any(name.lower().startswith("torch==") for name in NO_MATCH.findall(log))


def cause(log: str) -> str:
    """One clause and a remedy for a failed pip run, from its output. The last resort quotes pip's own last error."""
    if DISK.search(log):
        return "the disk is full; free some space and run it again, it goes on where it stopped"
    if CERTIFICATE.search(log):
        return "the package index's certificate is not trusted here; give pip yours with PIP_CERT=/path/to/ca.pem"
    if NETWORK.search(log):
        return (
            "there is no network to the package index; connect, or set PIP_INDEX_URL or HTTPS_PROXY, and run it again"
        )
    if match := PERMISSION.search(log):
        return f"{match[1] or 'a folder'} cannot be written; run it as the user who owns the checkout"
    if MEMORY.search(log):
        return "memory ran out; stop something and run it again"
    if COMPILER.search(log):
        return (
            "a package has no wheel for this Python and cannot be compiled here; use another Python as in make run "
            "PYTHON=python3.12, or install a compiler (Debian: apt-get install build-essential python3-dev)"
        )
    if names := NO_MATCH.findall(log):
        return (
            f"no configured package index holds {names[-1]} for this Python and machine; check PIP_INDEX_URL, or use "
            "another Python as in make run PYTHON=python3.12"
        )
    errors = [line.strip() for line in log.splitlines() if line.lstrip().lower().startswith("error")]
    return f"pip says {errors[-1][:300]!r}" if errors else "pip gave no reason"


def last_lines(log: str, count: int = 6) -> list[str]:
    """The last lines that mean something."""
    lines = [line.rstrip()[:200] for line in log.splitlines() if not _NOISE.match(line)]
    return lines[-count:]
