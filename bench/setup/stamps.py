"""What is already made: stamps over inputs, and the lock that keeps two setups apart.

A stamp is written last, so an interrupted install has none and is taken up again. Installing never belongs here.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

STAMP = ".governor-stamp"
NOT_SOURCE = {"__pycache__", "build", "dist", ".pytest_cache", ".mypy_cache", ".ruff_cache", "tests"}


def digest(parts: Iterable[str]) -> str:
    """A hash over texts; where one ends and the next begins counts."""
    total = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        total.update(len(encoded).to_bytes(8, "big") + encoded)
    return total.hexdigest()


def source_files(folder: Path) -> list[Path]:
    """The files under `folder` that a build could read, without what builds and tests leave behind, in order."""
    found = []
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in NOT_SOURCE and not name.endswith(".egg-info")]
        found += [Path(here) / name for name in names if not name.endswith((".pyc", "~"))]
    return sorted(found)


def tree_digest(folder: Path) -> str:
    """A hash over names and contents of the source files under `folder`."""
    return digest(
        text
        for path in source_files(folder)
        for text in (str(path.relative_to(folder)), hashlib.sha256(path.read_bytes()).hexdigest())
    )


def is_current(folder: Path, wanted: str) -> bool:
    """Whether `folder` was finished with exactly these inputs."""
    try:
        return (folder / STAMP).read_text() == wanted
    except OSError:
        return False


def mark(folder: Path, made_of: str) -> None:
    """Says that `folder` is finished."""
    scratch = folder / f"{STAMP}.new"
    scratch.write_text(made_of)
    scratch.replace(folder / STAMP)


def unmark(folder: Path) -> None:
    """Says that `folder` is being changed."""
    (folder / STAMP).unlink(missing_ok=True)


@contextlib.contextmanager
def locked(lock: Path, on_wait: Callable[[], None], *, poll_s: float = 0.2) -> Iterator[None]:
    """Holds an exclusive lock on a file; calls `on_wait` once when somebody else holds it. The system frees it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as handle:
        said = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not said:
                    on_wait()
                    said = True
                time.sleep(poll_s)
        yield
