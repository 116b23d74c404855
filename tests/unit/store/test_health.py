"""A SQLite file that is broken, full, locked or not writable: found out on a real one."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from domain.errors import HistoryUnavailable
from store import health
from store.database import database_url
from store.health import Check, Trouble
from store.history import History
from tests.contract.store.samples import decision
from tests.programs import without

NOW = datetime(2026, 1, 31, 8, 30, 15, tzinfo=UTC)
LONG_S = 60.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history with some hundred pages of decisions, closed."""
    path = tmp_path_factory.mktemp("made") / "history.db"

    async def write() -> None:
        history = History(database_url(str(path)), "gpu1")
        await history.open()
        await history.decisions.add(None, [replace(decision(n), sentence="x" * 1000) for n in range(700)])
        await history.close()

    asyncio.run(write())
    return path


@pytest.fixture
def written(made: Path, tmp_path: Path) -> Path:
    """A copy of it, alone in its directory."""
    (tmp_path / "state").mkdir()
    return Path(shutil.copy(made, tmp_path / "state"))


def overwrite(path: Path, share: float) -> None:
    """4 KiB of it, at about that share of its length, as a failing disk or another program would."""
    page = int(path.stat().st_size * share) // 4096
    with path.open("r+b") as file:
        file.seek(page * 4096)
        file.write(bytes(range(256)) * 16)


def test_a_sound_file_is_found_sound(written: Path) -> None:
    assert health.quick_check(written, LONG_S) == Check(None, complete=True)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_four_kib_overwritten_anywhere_in_it_are_found(written: Path, share: float) -> None:
    overwrite(written, share)
    check = health.quick_check(written, LONG_S)
    assert check.complete
    assert check.problem is not None


@pytest.mark.parametrize("what", ["text", "cut off"])
def test_what_is_no_database_is_found(written: Path, what: str) -> None:
    if what == "text":
        written.write_bytes(b"not a database, but long enough to be read as one" * 400)
    else:
        os.truncate(written, written.stat().st_size // 2)
    assert health.quick_check(written, LONG_S).problem is not None


def test_a_check_ends_with_its_time_and_blames_nothing(written: Path) -> None:
    assert health.quick_check(written, 0.0) == Check(None, complete=False)


def test_a_file_that_another_process_holds_is_not_found_broken(written: Path) -> None:
    with closing(sqlite3.connect(written, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        assert health.quick_check(written, 0.05) == Check(None, complete=False)


def test_a_check_reads_what_is_still_in_the_write_ahead_log(tmp_path: Path, written: Path) -> None:
    """Copied while a connection was open, as after a crash."""
    crashed = tmp_path / "crashed.db"
    with closing(sqlite3.connect(written)) as other:
        other.execute("CREATE TABLE late (x)")
        other.commit()
        for suffix in ("", "-wal"):
            shutil.copy(f"{written}{suffix}", f"{crashed}{suffix}")
    assert health.quick_check(crashed, LONG_S) == Check(None, complete=True)
    with closing(sqlite3.connect(crashed)) as after:
        assert after.execute("SELECT count(*) FROM late").fetchone() == (0,)


def test_a_broken_file_goes_aside_with_all_that_belongs_to_it(written: Path) -> None:
    contents = {"": b"database", "-wal": b"log", "-shm": b"index"}
    for suffix, content in contents.items():
        Path(f"{written}{suffix}").write_bytes(content)
    target = health.set_aside(written, NOW)
    assert target == written.with_name("history.db.corrupt-20260131T083015Z")
    assert {path.name for path in written.parent.iterdir()} == {f"{target.name}{suffix}" for suffix in contents}
    for suffix, content in contents.items():
        assert Path(f"{target}{suffix}").read_bytes() == content


def test_an_earlier_one_is_never_overwritten(written: Path) -> None:
    names = []
    for content in (b"first", b"second", b"third"):
        written.write_bytes(content)
        Path(f"{written}-wal").write_bytes(content + b" log")
        names.append(health.set_aside(written, NOW))
    assert [path.read_bytes() for path in names] == [b"first", b"second", b"third"]
    assert [Path(f"{path}-wal").read_bytes() for path in names] == [b"first log", b"second log", b"third log"]
    assert set(health.set_aside_before(written)) == set(names)


def test_what_was_set_aside_opens_with_the_newest_rows_of_its_log(tmp_path: Path, written: Path) -> None:
    crashed = tmp_path / "crashed.db"
    with closing(sqlite3.connect(written)) as other:
        other.execute("CREATE TABLE late (x)")
        other.commit()
        for suffix in ("", "-wal", "-shm"):
            shutil.copy(f"{written}{suffix}", f"{crashed}{suffix}")
    with closing(sqlite3.connect(health.set_aside(crashed, NOW))) as aside:
        assert aside.execute("SELECT count(*) FROM late").fetchone() == (0,)


def test_a_file_that_cannot_be_moved_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(HistoryUnavailable, match=r"cannot set the broken history at .*x\.db aside: .*x\.db-wal"):
        health.set_aside(tmp_path / "nowhere" / "x.db", NOW)
    with pytest.raises(HistoryUnavailable, match="No such file"):
        health.set_aside(tmp_path / "x.db", NOW)
    assert list(tmp_path.iterdir()) == []


def coded(error: sqlite3.Error, code: int) -> sqlite3.Error:
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (coded(sqlite3.OperationalError("x"), sqlite3.SQLITE_FULL), Trouble.FULL),
        (OSError(errno.ENOSPC, "x"), Trouble.FULL),
        (OSError(errno.EDQUOT, "x"), Trouble.FULL),
        (coded(sqlite3.OperationalError("x"), sqlite3.SQLITE_BUSY_SNAPSHOT), Trouble.LOCKED),
        (coded(sqlite3.DatabaseError("x"), sqlite3.SQLITE_CORRUPT_VTAB), Trouble.CORRUPT),
        (coded(sqlite3.DatabaseError("x"), sqlite3.SQLITE_NOTADB), Trouble.CORRUPT),
        (coded(sqlite3.OperationalError("x"), sqlite3.SQLITE_READONLY_DBMOVED), Trouble.READ_ONLY),
        (OSError(errno.EROFS, "x"), Trouble.READ_ONLY),
        (coded(sqlite3.OperationalError("x"), sqlite3.SQLITE_IOERR_READ), Trouble.OTHER),
        (ValueError("x"), Trouble.OTHER),
    ],
)
def test_an_error_is_told_by_its_number_not_by_its_words(error: Exception, trouble: Trouble, tmp_path: Path) -> None:
    assert health.classify(error, tmp_path / "x.db") is trouble
    ours = HistoryUnavailable("cannot use it")
    ours.__cause__ = error
    assert health.classify(ours) is trouble


def test_a_disk_error_in_a_directory_that_is_gone_is_not_a_full_disk(tmp_path: Path) -> None:
    error = coded(sqlite3.OperationalError("x"), sqlite3.SQLITE_IOERR_WRITE)
    assert health.classify(error, tmp_path / "nowhere" / "x.db") is Trouble.OTHER


def test_sizes_are_told_and_what_is_not_to_be_seen_is_not_zero(tmp_path: Path, written: Path) -> None:
    assert health.file_bytes(written) == written.stat().st_size
    assert health.wal_bytes(written) == 0
    with closing(sqlite3.connect(written)) as other:
        other.execute("CREATE TABLE late (x)")
        assert (health.wal_bytes(written) or 0) > 0
    free = health.free_bytes(written)
    assert free is not None
    assert free > 0
    blocked = tmp_path / "file"
    blocked.write_text("")
    beyond = blocked / "x.db"
    assert (health.file_bytes(beyond), health.wal_bytes(beyond)) == (None, None)
    assert health.free_bytes(tmp_path / "nowhere" / "x.db") is None


def test_a_directory_that_can_be_written_is_no_problem_and_stays_as_it_was(tmp_path: Path) -> None:
    assert health.directory_problem(tmp_path / "x.db") is None
    assert list(tmp_path.iterdir()) == []


OPENED = """
import asyncio, sys
from store.database import database_url
from store.history import History
from store.health import classify
async def open_it():
    history = History(database_url(sys.argv[1]), "gpu1")
    try:
        await history.open()
    except Exception as error:
        from pathlib import Path
        print(classify(error, Path(sys.argv[1])), error)
    await history.close()
asyncio.run(open_it())
"""


def sandboxed(path: Path, mounts: str) -> str:
    """What opening the history says where the file system is mounted so; the mounts are that process's alone."""
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    script = f'set -e; {mounts}; exec "$PYTHON" -c "$OPENED" "$FILE"'
    environment = {**os.environ, "FILE": str(path), "DIR": str(path.parent), "OPENED": OPENED, "PYTHON": sys.executable}
    done = subprocess.run(
        ["unshare", "--mount", *rights, "sh", "-c", script],
        env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if done.returncode != 0:
        without(f"cannot mount in a namespace of its own: {done.stderr.strip()[-200:]}; run as root with CAP_SYS_ADMIN")
    return done.stdout


READ_ONLY = 'mount --bind "$DIR" "$DIR"; mount -o remount,bind,ro "$DIR"'
FILE_ALONE = f'{READ_ONLY}; mount --bind "$FILE" "$FILE"; mount -o remount,bind,rw "$FILE"'


@pytest.mark.parametrize("there", [True, False], ids=["file is there", "no file yet"])
def test_a_read_only_directory_is_named_with_what_systemd_needs(written: Path, there: bool) -> None:
    if not there:
        written.unlink()
    said = sandboxed(written, READ_ONLY)
    assert said.startswith(f"{Trouble.READ_ONLY} cannot write the history at {written}: Read-only file system"), said
    assert f"ReadWritePaths={written.parent}" in said


def test_where_only_the_file_may_be_written_the_directory_is_asked_for(written: Path) -> None:
    """`ReadWritePaths=` on the file alone: SQLite keeps its log and its index beside it."""
    said = sandboxed(written, FILE_ALONE)
    assert said.startswith(str(Trouble.READ_ONLY)), said
    assert "SQLite needs the directory, not only the file, for history.db-wal and history.db-shm" in said


def test_a_directory_without_space_is_told_from_one_that_may_not_be_written(written: Path) -> None:
    shutil.copy(written, written.parent.parent)
    mounts = (
        'mount -t tmpfs -o size=1536k none "$DIR"; cp "$DIR/../history.db" "$FILE" || true; '
        'cat /dev/zero > "$DIR/filler" 2>/dev/null || true'
    )
    said = sandboxed(written, mounts)
    assert said.startswith(f"{Trouble.FULL} cannot write the history at {written}: No space left on device"), said
