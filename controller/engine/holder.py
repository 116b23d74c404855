"""Who holds an engine's lease: this daemon's name, and whether another that is named has ended.

Belongs here: the name and reading it. Never: taking the lease (link.py).
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

SHOWN_CHARS = 60
ENDED = frozenset("ZXx")
_TEXT = re.compile(
    r".*process (?P<pid>\d+) on .* \[(?P<boot>[0-9a-f]+)/(?P<namespace>\d+)/(?P<started>\d+)\]", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process can be looked up: the machine since its boot, and the PID namespace on it."""

    boot: str
    namespace: str


def name(node: str) -> str:
    """What this process calls itself; it tells every other process from it, of the same settings too."""
    pid, place = os.getpid(), _place()
    host = socket.gethostname()[:SHOWN_CHARS]
    found = f"{node[:SHOWN_CHARS]}, process {pid} on {host}"
    started = _started(pid)
    return found if place is None or started is None else f"{found} [{place.boot}/{place.namespace}/{started}]"


def gone(holder: str) -> bool:
    """Whether that process ran on this machine, where it can be looked up, and has ended. In doubt it has not."""
    said, place = _TEXT.fullmatch(holder), _place()
    if said is None or place is None or (said["boot"], said["namespace"]) != (place.boot, place.namespace):
        return False
    started = _started(int(said["pid"]))
    return started != said["started"]  # a process of that number that began at another time is another one


def shown(holder: str) -> str:
    """The name without what only machines need."""
    return holder.rpartition(" [")[0] or holder


def _place() -> Place | None:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip().replace("-", "")[:12]
        namespace = "".join(filter(str.isdecimal, Path("/proc/self/ns/pid").readlink().name))
    except OSError:
        return None
    return Place(boot, namespace) if boot and namespace else None


def _started(pid: int) -> str | None:
    """When it began, in ticks since the machine's boot; None where there is no such process, or it has ended and
    nobody has asked yet what became of it.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = stat.rpartition(")")[2].split()  # from field 3 of proc(5) on; a name may hold parentheses too
    return None if state in ENDED else rest[18]
