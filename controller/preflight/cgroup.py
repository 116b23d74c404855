"""The memory limit that a process really has: the lowest on the way from its cgroup up to the root.

Belongs here: both versions of cgroups, and their words for "none". Never: whether a limit is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from controller.preflight.looking import text
from controller.preflight.result import NotKnown

NONE_V1 = 2**62
"""Version 1 has no word for "no limit": it tells the largest number of pages, 9223372036854771712."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes; None: no limit."""

    memory: int | None
    swap: int | None
    """Of swap alone, beside the memory."""
    used: int | None
    """What the cgroup that has the limit uses now, without files that the kernel keeps only while there is room (the
    model's, once it is loaded); None: not told."""
    where: str
    """The cgroup that has it; its own where there is none."""


@dataclass(frozen=True, slots=True)
class _Files:
    root: Path
    limit: str
    swap: str
    used: str


def limits(cgroup: str, sys: Path) -> Limits:
    """`cgroup` is the text of /proc/PID/cgroup. Raises NotKnown where no memory controller is seen."""
    path, files = _find(cgroup, sys / "fs" / "cgroup")
    steps = [path, *path.parents]
    memory: tuple[int, PurePosixPath] | None = None
    swaps: list[int] = []
    for step in steps:
        folder = files.root / str(step).lstrip("/")
        limit = _number(folder / files.limit)
        if limit is not None and (memory is None or limit < memory[0]):
            memory = limit, step
        swap = _number(folder / files.swap)
        if swap is not None:
            swaps.append(swap if files.swap == "memory.swap.max" else max(0, swap - (limit or 0)))
    where = path if memory is None else memory[1]
    folder = files.root / str(where).lstrip("/")
    used = _number(folder / files.used)
    if used is not None:
        used = max(0, used - _cached(folder))
    return Limits(None if memory is None else memory[0], min(swaps, default=None), used, str(where))


def _find(cgroup: str, root: Path) -> tuple[PurePosixPath, _Files]:
    for line in cgroup.splitlines():
        number, controllers, path = line.split(":", 2)
        inside = PurePosixPath("/" if path.startswith("/..") else path)
        if "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.usage_in_bytes")
            return _seen(root / "memory", inside, _Files(root / "memory", *names))
        if number == "0" and (root / "cgroup.controllers").exists():
            return _seen(root, inside, _Files(root, "memory.max", "memory.swap.max", "memory.current"))
    raise NotKnown(f"no memory controller of cgroups is seen under {root}")


def _seen(root: Path, path: PurePosixPath, files: _Files) -> tuple[PurePosixPath, _Files]:
    """In a container the kernel may tell the host's path although the files begin at the container's own group."""
    return (path if (root / str(path).lstrip("/")).is_dir() else PurePosixPath("/")), files


def _cached(folder: Path) -> int:
    """Bytes of files that are read from disk again when memory is short. Version 1 tells each group's own before the
    sums (`total_`) of those below it.
    """
    rows = (line.split() for line in (text(folder / "memory.stat") or "").splitlines())
    found = {row[0].removeprefix("total_"): int(row[1]) for row in rows if len(row) == 2}
    return found.get("inactive_file", 0) + found.get("active_file", 0)


def _number(path: Path) -> int | None:
    found = text(path)
    if found is None or found == "max":
        return None
    value = int(found)
    return None if value >= NONE_V1 else value
