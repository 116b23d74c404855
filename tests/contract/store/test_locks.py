"""Who waits for whom, told by a second connection or a second process that really holds the lock."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from domain.errors import HistoryUnavailable
from store.database import Database, Limits, database_url, sqlite_path
from store.health import Trouble, classify, file_bytes, wal_bytes
from store.history import History
from store.kept import put
from store.models import KeptRow
from tests.contract.store.samples import AT, DECISION, decision

HOLDER = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute(sys.argv[2])
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def held(path: Path, begin: str) -> Iterator[None]:
    """Another process in a transaction that began so."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), begin], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield
    finally:
        process.communicate("\n")


@pytest.fixture
async def on_file(tmp_path: Path) -> History:
    """A history that waits a tenth of a second for a lock."""
    history = History(database_url(str(tmp_path / "history.db")), "gpu1", Limits(busy_timeout_s=0.1))
    await history.open()
    return history


async def test_a_writer_takes_the_lock_before_it_reads_not_when_it_writes(on_file: History) -> None:
    """So it never finds, when it comes to write, that what it read is old."""
    path = sqlite_path(on_file.url)
    assert path is not None
    with held(path, "BEGIN IMMEDIATE"):
        with pytest.raises(HistoryUnavailable, match="database is locked") as caught:
            async with on_file.database.transaction() as session:
                await session.get(KeptRow, ("gpu1", "one"))
        assert classify(caught.value) is Trouble.LOCKED
    await on_file.decisions.add(None, [decision()])


async def test_a_reader_neither_waits_for_a_writer_nor_sees_half_of_what_it_writes(on_file: History) -> None:
    await on_file.decisions.add(None, [decision()])
    path = sqlite_path(on_file.url)
    assert path is not None
    with held(path, "BEGIN IMMEDIATE"):
        assert len(await on_file.decisions.select()) == 1


async def test_a_current_history_opens_while_another_process_writes(on_file: History) -> None:
    path = sqlite_path(on_file.url)
    assert path is not None
    with held(path, "BEGIN IMMEDIATE"):
        again = History(on_file.url, "gpu1", Limits(busy_timeout_s=0.1))
        await again.open()
        await again.close()


async def test_a_transaction_that_fails_leaves_nothing(history: History) -> None:
    with pytest.raises(HistoryUnavailable, match="word of nobody"):
        async with history.database.transaction() as session:
            await put(session, "gpu1", "one", AT, {"a": 1})
            raise ValueError("word of nobody")
    assert await history.kept.get("one") is None


async def test_a_reader_sees_one_moment_of_what_others_write(on_file: History) -> None:
    """Within one transaction of a reader on SQLite nothing changes, whatever is committed meanwhile."""
    await on_file.kept.put("one", AT, {"a": 1})
    async with on_file.database.reading() as session:
        before = await session.get(KeptRow, ("gpu1", "one"))
        assert before is not None
        await on_file.kept.put("one", AT, {"a": 2})
        await session.refresh(before)
        assert before.value == {"a": 1}
    assert await on_file.kept.get("one") == {"a": 2}


async def test_writers_of_one_database_wait_for_each_other(database_at: str) -> None:
    histories = [History(database_at, f"gpu{number}", Limits(busy_timeout_s=30)) for number in range(4)]

    async def write(history: History) -> None:
        await history.open()
        for number in range(10):
            await history.decisions.add(None, [decision(number)])

    await asyncio.gather(*(write(history) for history in histories))
    assert len(await histories[0].decisions.select()) == 40
    for history in histories:
        await history.close()


async def test_the_file_grows_to_its_limit_and_says_that_it_is_full(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    history = History(database_url(str(path)), "gpu1", Limits(file_max_bytes=1024 * 1024))
    await history.open()
    with pytest.raises(HistoryUnavailable, match="full") as caught:
        while True:
            await history.decisions.add(None, [replace(DECISION, sentence="x" * 50_000)])
    assert classify(caught.value) is Trouble.FULL
    assert (file_bytes(path) or 0) <= 1024 * 1024
    assert len(await history.decisions.select()) > 10
    await history.close()


async def test_the_write_ahead_log_is_cut_back_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    history = History(database_url(str(path)), "gpu1", Limits(wal_max_bytes=100_000))
    await history.open()
    await history.decisions.add(None, [replace(DECISION, sentence="x" * 6_000_000)])
    assert (wal_bytes(path) or 0) > 5_000_000
    await history.decisions.add(None, [decision()])  # the log begins anew after the checkpoint
    assert (wal_bytes(path) or 0) <= 200_000
    await history.close()


def test_every_commit_waits_for_the_disk_and_foreign_keys_hold(tmp_path: Path) -> None:
    async def pragmas() -> list[object]:
        database = Database(database_url(str(tmp_path / "x.db")), "n")
        async with database.outside() as connection:
            found = [(await connection.exec_driver_sql(f"PRAGMA {name}")).scalar() for name in names]
        await database.engine.dispose()
        return found

    names = ("synchronous", "foreign_keys", "busy_timeout", "journal_size_limit")
    assert asyncio.run(pragmas()) == [2, 1, 1000, 64 * 1024 * 1024]


async def test_a_database_is_vacuumed_outside_of_any_transaction(on_file: History) -> None:
    async with on_file.database.outside() as connection:
        await connection.exec_driver_sql("VACUUM")
    with sqlite3.connect(str(sqlite_path(on_file.url))) as other:
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
