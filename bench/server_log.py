"""Reads vLLM's log: how far a start has come, and why one ended.

Text in, text out. Files and processes never belong here.
"""

from __future__ import annotations

import re

#: What is said first in the log of a start, latest first, and what happens then. Texts of vLLM 0.27 .. 0.32.
_MILESTONES = (
    ("Application startup complete", "serving"),
    ("Starting vLLM", "opening the port"),
    ("# GPU blocks:", "preparing the scheduler"),
    ("KV cache size", "preparing the scheduler"),
    ("Loading model", "loading the model"),
    ("Starting to load model", "loading the model"),
    ("Initializing a V1 LLM engine", "starting the engine core"),
    ("non-default args", "reading the model's configuration"),
)
_KNOWN = (
    (
        re.compile(r"address already in use|Errno 98", re.IGNORECASE),
        "its port is in use; stop what listens there or leave the port out to have a free one chosen",
    ),
    (
        re.compile(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file"),
        "the system library {0} is missing; install it (libnuma.so.1 is Debian's libnuma1)",
    ),
    (re.compile(r"No module named '(vllm)'"), "its environment holds no vLLM; install it or leave VLLM_ENV out"),
    (
        re.compile(r"unrecognized arguments?: (.+)"),
        "this vLLM does not know the argument {0}; use the version that the project is made for or leave it out",
    ),
    (
        re.compile(r"Cannot allocate memory|MemoryError|std::bad_alloc|is less than desired CPU memory"),
        "memory is short; stop something or make the cache smaller",
    ),
    (
        re.compile(r"Insufficient space in (\S+)|No space left on device"),
        "shared memory or the disk is full; free some space ({0})",
    ),
)
#: Says that something else failed, never what.
_EMPTY = ("Engine core initialization failed", "EngineCore failed to start", "Failed core proc", "SystemExit")
#: A pydantic error says what is wrong a line later.
_VALUE = re.compile(r"Value error, (.+?)(?: \[type=.*)?$")
_ERROR = re.compile(r"(?:^|\s)((?:[A-Za-z_]+\.)*[A-Z]\w*(?:Error|Exception|Failure)\b(?:: .+)?)$")


def milestone(log: str) -> str:
    """What a start does now."""
    return next((said for text, said in _MILESTONES if text in log), "importing vLLM")


def cause(log: str, returncode: int | None) -> str:
    """Why vLLM ended, in one clause with the remedy where one is known; its own last error otherwise."""
    for pattern, sentence in _KNOWN:
        if match := pattern.search(log):
            return sentence.format(*(match.groups() or (match[0],)))
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [match[1] for line in lines if (match := _VALUE.search(line) or _ERROR.search(line))]
    telling = [error for error in errors if not any(empty in error for empty in _EMPTY)]
    if telling or errors:
        return f"it says {(telling or errors)[-1][:300]!r}"
    if returncode == -9:
        return "it was killed (SIGKILL), most likely because memory ran out; stop something and try again"
    return f"its last line is {lines[-1][:300]!r}" if lines else "it said nothing"
