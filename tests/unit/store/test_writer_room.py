"""What the writer does where a SQLite file has no room: its own limit, or that of its write-ahead log."""

from __future__ import annotations

import asyncio
import sqlite3
from array import array
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from store import health
from store.database import Limits
from store.health import Trouble
from store.history import Chunk
from store.writes import AddReading, Keep, Record
from tests.writers import BEGAN, BOOT, QUICK, change, requested, rows, writing, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def reading(second: int) -> AddReading:
    return AddReading(BOOT, BEGAN + timedelta(seconds=second), ["running"], array("d", [1.0]), {})


def recording(minute: int, keep: int = 1000) -> Record:
    at = BEGAN + timedelta(minutes=minute)
    return Record(BOOT, Chunk(at, at, 1, bytes([minute % 256]) * 10_000), keep)


async def test_a_file_at_its_own_limit_gives_up_the_oldest_recordings_and_takes_what_comes(path: Path) -> None:
    """Nobody else makes room: the job that does so in time is not called here."""
    limit = 1_000_000
    async with writing(path, limits=replace(QUICK, file_max_bytes=limit)) as writer:
        for number in range(300):
            writer.put(recording(number))
            assert await writer.commit(change(number), 10)
            assert writer.state().problem is None
        await written(writer)
        assert writer.state().dropped == 0
    assert requested(path) == list(range(300))
    ((oldest, newest, many),) = rows(path, "SELECT min(id), max(id), count(*) FROM recordings")
    assert (newest, oldest > 1, many > 20) == (300, True, True)
    assert (health.file_bytes(path) or 0) <= limit


async def test_a_file_at_its_own_limit_that_has_nothing_to_give_up_says_so_and_keeps_what_comes(path: Path) -> None:
    async with writing(path, limits=replace(QUICK, file_max_bytes=400_000)) as writer:
        async with asyncio.timeout(60):
            number = 0
            while await writer.commit(change(number), 10):
                number += 1
        state = writer.state()
        assert state.trouble is Trouble.FULL
        assert "nothing is left that may go before its time; raise it" in (state.problem or "")
        assert (state.pending, state.dropped) == (1, 0)
    assert requested(path) == list(range(number))


async def test_a_long_reader_holds_the_log_then_decisions_are_written_and_the_rest_waits(path: Path) -> None:
    async with writing(path, limits=Limits(wal_max_bytes=200_000, busy_timeout_s=0.05)) as writer:
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM decisions").fetchall()
            async with asyncio.timeout(30):
                while writer.state().problem is None:
                    assert await writer.commit(change(0), 10)
                    writer.put(Keep("filler", BEGAN, {"text": "x" * 20_000}))
                    await asyncio.sleep(0.01)
            assert "write-ahead log has reached" in (writer.state().problem or "")
            waiting = writer.put(reading(1))
            assert await writer.commit(change(1), 10)
            await asyncio.sleep(0.5)
            assert not waiting.written
            reader.execute("ROLLBACK")
        await written(writer)
        assert waiting.written
        assert writer.state().problem is None
        assert (writer.state().wal_bytes or 0) < 200_000
    assert set(requested(path)) == {0, 1}
