"""A SQLite file that this user may only read: another user's, one on a medium that cannot be written.

A reader of a file with a write-ahead log makes a -shm beside it, and may not here. Where nobody writes the file it can
be read without one. Belongs here: that. Never: rows, what a daemon does about such a file (store/scribe.py).
"""

from __future__ import annotations

import os
from pathlib import Path

from store import health


def read_only_uri(path: Path) -> str:
    """SQLite's name for opening it so that nothing is changed."""
    return f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if at_rest(path) else ''}"


def at_rest(path: Path) -> bool:
    """Whether this user cannot write it, and nobody does: all of it is in the one file."""
    return not _writable(path) and health.wal_bytes(path) == 0 and not _has_shm(path)


def reading_problem(path: Path) -> str | None:
    """One sentence where this user cannot read it; None where that is not known, or it is not there."""
    try:
        path.stat()
        readable = os.access(path, os.R_OK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:  # its directory may not be entered
        readable = False
    if not readable:
        return f"cannot read the history at {path}: the right is missing; run this as the daemon's user, or as root"
    if not _writable(path) and health.wal_bytes(path) != 0 and not _has_shm(path):
        return (
            f"cannot read the history at {path}: its newest rows are in {path.name}-wal, which SQLite reads only where "
            f"it may write beside it; run this as the daemon's user, or copy {path.name} and {path.name}-wal together "
            "to a directory of your own"
        )
    return None


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _has_shm(path: Path) -> bool:
    return os.path.lexists(f"{path}-shm")
