"""vLLM may open as many files as it has connections.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight import processes
from controller.preflight.result import FAIL, PASS, UNKNOWN, WARN, Check, Found, NotKnown
from controller.preflight.surroundings import Surroundings

LEAST = 100_000
FULL = 0.8
_UNLIMITED = "unlimited"


def _look(around: Surroundings) -> Found:
    process = processes.server(around)
    line = next((one for one in process.read("limits").splitlines() if one.startswith("Max open files")), None)
    if line is None:
        raise NotKnown(f"/proc/{process.pid}/limits has no line of open files")
    soft = line.removeprefix("Max open files").split()[0]
    if soft == _UNLIMITED:
        return Found(PASS, "open files are not limited")
    limit, used = int(soft), _open(process)
    cure = f"sudo prlimit --pid {process.pid} --nofile={LEAST}:{LEAST}"
    told = f"vLLM may open {limit} files" + ("" if used is None else f" and has {used} open")
    if used is not None and used > FULL * limit:
        return Found(FAIL, f"{told}: it is about to refuse connections (EMFILE)", cure)
    if limit < LEAST:
        return Found(WARN, f"{told}; {LEAST} is the least: more than {limit} streams at a time fail", cure)
    return Found(PASS, f"{told}; {LEAST} is the least")


def _open(process: processes.Process) -> int | None:
    """None where this user may not count them."""
    try:
        return sum(1 for _ in (process.folder / "fd").iterdir())
    except OSError:
        return None


CHECK = Check(
    "open_files",
    "vLLM may open 100000 files or more, and has a fifth of them left",
    "seed 2, deployment checklist 8; field case S5",
    frozenset({PASS, WARN, FAIL, UNKNOWN}),
    _look,
)
