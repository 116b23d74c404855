"""What is wrong with a database: an error classified, a SQLite file checked and set aside, its directory probed.

Belongs here: looking and moving files. Never: rows, or what the daemon does about it (store/writer.py). Nothing here is
asynchronous: it is called in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from domain.errors import HistoryUnavailable

COMPANIONS = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database, and may not be without: the newest rows are in -wal."""
CHECK_STEP = 10_000
"""SQLite asks after so many of its virtual machine's steps whether to go on: some milliseconds."""
LONGEST_MARK = 100
"""Bytes; a database has at least a page."""
NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
NO_RIGHT = {errno.EROFS, errno.EACCES, errno.EPERM}


class Trouble(StrEnum):
    """Why a database cannot be used now."""

    FULL = "full"
    """No space, or the file has reached `store.max_mb`."""
    LOCKED = "locked"
    """Another process holds a lock."""
    CORRUPT = "corrupt"
    """What is in the file is no sound database."""
    READ_ONLY = "read_only"
    """The file, its directory or the file system may not be written."""
    OTHER = "other"


_SQLITE = {
    sqlite3.SQLITE_FULL: Trouble.FULL,
    sqlite3.SQLITE_BUSY: Trouble.LOCKED,
    sqlite3.SQLITE_LOCKED: Trouble.LOCKED,
    sqlite3.SQLITE_PROTOCOL: Trouble.LOCKED,
    sqlite3.SQLITE_CORRUPT: Trouble.CORRUPT,
    sqlite3.SQLITE_NOTADB: Trouble.CORRUPT,
    sqlite3.SQLITE_READONLY: Trouble.READ_ONLY,
    sqlite3.SQLITE_PERM: Trouble.READ_ONLY,
}
"""SQLite's primary result codes; the extended ones hold them in their lowest byte."""
_POSTGRESQL = {
    "53100": Trouble.FULL,  # disk_full
    "55P03": Trouble.LOCKED,  # lock_not_available
    "40P01": Trouble.LOCKED,  # deadlock_detected
    "XX001": Trouble.CORRUPT,  # data_corrupted
    "XX002": Trouble.CORRUPT,  # index_corrupted
    "25006": Trouble.READ_ONLY,  # read_only_sql_transaction
    "42501": Trouble.READ_ONLY,  # insufficient_privilege
}
"""PostgreSQL's SQLSTATE, appendix A of its manual."""


def classify(error: BaseException, path: Path | None = None) -> Trouble:
    """What an error of the database, or one of ours with such a cause, means; `path` is the SQLite file's.

    SQLite says "disk I/O error" and "unable to open database file" for many things: then the directory tells.
    """
    for one in _chain(error):
        state, code, number = (getattr(one, name, None) for name in ("sqlstate", "sqlite_errorcode", "errno"))
        if state in _POSTGRESQL:
            return _POSTGRESQL[state]
        if code is not None:
            found = _SQLITE.get(code & 0xFF)
            return found or (Trouble.OTHER if path is None else _of_directory(path))
        if number in NO_SPACE | NO_RIGHT:
            return Trouble.FULL if number in NO_SPACE else Trouble.READ_ONLY
    return Trouble.OTHER


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, what SQLAlchemy wraps in it, and what it was raised from."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop(0)
        if one is not None and one not in seen:
            seen.append(one)
            yield one
            waiting += [getattr(one, "orig", None), one.__cause__]


def _of_directory(path: Path) -> Trouble:
    error = _probe(path)
    if error is None:
        return Trouble.OTHER
    return Trouble.FULL if error.errno in NO_SPACE else Trouble.READ_ONLY if error.errno in NO_RIGHT else Trouble.OTHER


def _probe(path: Path) -> OSError | None:
    """Writes a file beside the database, a page long, and takes it away again."""
    try:
        with tempfile.TemporaryFile(dir=path.parent, buffering=0) as probe:
            probe.write(b"\0" * 4096)
            os.fsync(probe.fileno())
    except OSError as error:
        return error
    return None


def directory_problem(path: Path) -> str | None:
    """One sentence where SQLite cannot keep the file at `path` because of its directory; None where it can."""
    error = _probe(path)
    if error is None:
        return None
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in NO_SPACE:
        return f"cannot write the history at {path}: {reason} in {path.parent}; make room there"
    if error.errno in NO_RIGHT:
        return (
            f"cannot write the history at {path}: {reason} for its directory {path.parent}; SQLite needs the "
            f"directory, not only the file, for {path.name}-wal and {path.name}-shm: under systemd use "
            f"StateDirectory=, or ReadWritePaths={path.parent}"
        )
    return f"cannot write the history at {path}: {reason}; its directory must exist and be writable"


@dataclass(frozen=True, slots=True)
class Check:
    """`problem` None and `complete`: the file is sound. Not complete: so far as it was read, nothing is wrong."""

    problem: str | None
    complete: bool


def quick_check(path: Path, limit_s: float) -> Check:
    """SQLite's `quick_check` of an existing file, for at most about `limit_s`. A file that cannot be read for another
    reason than what is in it (a lock, its rights) is not found wrong.
    """
    until_s = time.monotonic() + limit_s
    try:
        # mode=rw: what is in the -wal belongs to the database, and reading it takes writing the -shm.
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
            connection.execute(f"PRAGMA busy_timeout={round(limit_s * 1000)}")
            connection.set_progress_handler(lambda: time.monotonic() >= until_s, CHECK_STEP)
            found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)")]
    except sqlite3.DatabaseError as error:
        corrupt = classify(error) is Trouble.CORRUPT
        return Check(str(error) if corrupt else None, complete=corrupt)
    return Check(None if found == ["ok"] else " ".join(" ".join(found).split()), complete=True)


def set_aside(path: Path, now: datetime | None = None) -> Path:
    """Moves a database with all that belongs to it to NAME.corrupt-TIME, where SQLite can open it; answers the new
    path. An earlier one is never overwritten. Raises HistoryUnavailable.

    The companions go first: were it cut off in between, the next start would find a database without them, which
    `undo_set_aside` gives them back, and not a new one beside a foreign -wal, which SQLite would throw away.
    """
    try:
        target = _new_name(path, now or datetime.now(UTC))
        try:
            for companion in COMPANIONS:
                with contextlib.suppress(FileNotFoundError):
                    os.rename(f"{path}{companion}", f"{target}{companion}")
            os.replace(path, target)
        except OSError:
            _put_back(path, target)
            raise
        _sync(path.parent)
    except OSError as error:
        raise HistoryUnavailable(
            f"cannot set the broken history at {path} aside: {error.strerror or error}; move it, {path.name}-wal and "
            f"{path.name}-shm away together"
        ) from error
    return target


def undo_set_aside(path: Path) -> None:
    """Where moving the database at `path` away was cut off, put its companions back: only with them it is whole. Raises
    HistoryUnavailable.
    """
    try:
        for target in set_aside_before(path):
            if target.stat().st_size < LONGEST_MARK and target.read_bytes() == _mark(path):
                _put_back(path, target)
    except OSError as error:
        raise HistoryUnavailable(
            f"cannot put back what belongs to the history at {path}: {error.strerror or error}; it was being set aside"
        ) from error


def _put_back(path: Path, target: Path) -> None:
    for companion in COMPANIONS:
        if not os.path.lexists(f"{path}{companion}"):
            with contextlib.suppress(FileNotFoundError):
                os.rename(f"{target}{companion}", f"{path}{companion}")
    target.unlink()  # nothing but the name
    _sync(path.parent)


def _mark(path: Path) -> bytes:
    """What the new name holds until the database is moved there: which one that is."""
    return f"to be moved here: inode {path.stat().st_ino}\n".encode()


def _new_name(path: Path, now: datetime) -> Path:
    """A name that nobody has, and that nobody else gets from now on."""
    mark = _mark(path)
    stamp = f"{path.name}.corrupt-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    number = 1
    while True:
        target = path.with_name(stamp if number == 1 else f"{stamp}.{number}")
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with contextlib.suppress(OSError):  # the disk is full: moving takes no room
                os.write(descriptor, mark)
            os.close(descriptor)
            return target
        number += 1


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def set_aside_before(path: Path) -> list[Path]:
    """The databases that were set aside beside `path`, oldest first, without their companions."""
    found = path.parent.glob(f"{path.name}.corrupt-*")
    return sorted(one for one in found if not one.name.endswith(COMPANIONS))


def file_bytes(path: Path) -> int | None:
    """The size of the database file; None where it is not to be seen."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def wal_bytes(path: Path) -> int | None:
    """The size of the write-ahead log, 0 where there is none; None where it is not to be seen."""
    try:
        return Path(f"{path}-wal").stat().st_size
    except FileNotFoundError:
        return 0
    except OSError:
        return None


def free_bytes(path: Path) -> int | None:
    """What an ordinary user may still write beside `path`; None where that is not to be seen."""
    try:
        space = os.statvfs(path.parent)
    except OSError:
        return None
    return space.f_bavail * space.f_frsize


def free_ratio(path: Path) -> float | None:
    """That as a share of the file system; None where it is not to be seen."""
    try:
        space = os.statvfs(path.parent)
    except OSError:
        return None
    return space.f_bavail / space.f_blocks if space.f_blocks else None


def set_aside_at(path: Path) -> datetime | None:
    """When the newest of the databases that were set aside beside `path` was; None: there is none."""
    stamps = [one.name.removeprefix(f"{path.name}.corrupt-").split(".")[0] for one in set_aside_before(path)]
    for stamp in sorted(stamps, reverse=True):
        with contextlib.suppress(ValueError):
            return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return None
