"""The one writer: what it acknowledges, what it keeps while it cannot write, what it does about a broken file."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from domain.errors import HistoryUnavailable, NewerSchema
from store.database import Limits, database_url
from store.health import Trouble
from store.history import History
from store.pending import Importance
from store.writer import Writer
from store.writes import AddDecisions, AddReading, BeginRun, Conclude, Keep
from tests.contract.store.samples import DECISION
from tests.waiting import until
from tests.writers import BEGAN, BOOT, QUICK, change, locked, requested, rows, until_failing, writing, written

LOCKER = """
import sqlite3, sys
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def reading(second: int) -> AddReading:
    return AddReading(BOOT, BEGAN + timedelta(seconds=second), ["running"], array("d", [1.0]), {})


def size_of(path: Path) -> int:
    return path.stat().st_size


@contextmanager
def another_process_locks(path: Path) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-c", LOCKER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        try:
            yield
        finally:
            other.communicate("")


async def test_what_is_committed_can_be_read_by_another_when_the_call_returns(path: Path) -> None:
    async with writing(path) as writer:
        for number in range(5):
            assert await writer.commit(change(number), 10)
            assert requested(path)[-1] == number
        state = writer.state()
        assert (state.pending, state.dropped, state.problem, state.oldest_wait_s) == (0, 0, None, 0.0)


async def test_what_is_put_is_written_within_a_moment_and_at_the_end(path: Path) -> None:
    async with writing(path) as writer:
        receipt = writer.put(change(1))
        await until("it is written", lambda: receipt.written)
        for number in range(2, 1000):
            writer.put(change(number))
    assert requested(path) == list(range(1, 1000))


async def test_while_another_process_holds_the_lock_all_is_kept_and_then_written_once_and_in_order(path: Path) -> None:
    async with writing(path, limits=Limits(busy_timeout_s=0.2)) as writer:
        await writer.commit(BeginRun(BOOT), 10)
        with another_process_locks(path):
            assert not await writer.commit(change(0), 10)
            assert writer.state().trouble is Trouble.LOCKED
            began = time.perf_counter()
            for number in range(1, 300):
                assert not await writer.commit(change(number), 10)
            writer.put(Conclude([replace(DECISION, uid=f"{0:032x}", observed=7.0)]))
            # What is known to be broken is not waited for: else it would be a minute.
            assert time.perf_counter() - began < 30.0
            assert writer.state().pending == 301
        await written(writer)
        assert writer.state().problem is None
    assert requested(path) == list(range(300))
    assert rows(path, "SELECT observed FROM decisions WHERE id = 1") == [(7.0,)]
    assert rows(path, "SELECT count(*) FROM runs") == [(1,)]


async def test_a_commit_that_takes_too_long_is_not_waited_for_and_neither_are_the_next(path: Path) -> None:
    async with writing(path, limits=Limits(busy_timeout_s=120.0)) as writer:
        with locked(path):
            began = time.perf_counter()
            assert not await writer.commit(change(0), 0.1)
            assert not await writer.commit(change(1), 120)
            assert time.perf_counter() - began < 60.0
            problem = writer.state().problem
            assert problem is not None
            assert "takes too long" in problem
        await written(writer)
        assert await writer.commit(change(2), 10)
    assert requested(path) == [0, 1, 2]


async def test_past_the_bound_readings_go_first_and_no_decision_is_lost(path: Path) -> None:
    async with writing(path, queue=100) as writer:
        with locked(path):
            for number in range(500):
                writer.put(reading(number))
                if number % 10 == 0:
                    writer.put(change(number))
            assert writer.state().pending <= 101
        await written(writer)
        assert 440 <= writer.state().dropped <= 460
    assert requested(path) == list(range(0, 500, 10))
    kept = [means for (means,) in rows(path, "SELECT at FROM readings ORDER BY at")]
    assert kept[-1].startswith("2026-01-01 12:08:19")


@dataclass(frozen=True)
class Faulty:
    importance: ClassVar[Importance] = Importance.ESSENTIAL

    async def __call__(self, history: Any, session: Any) -> None:
        raise LookupError("a programming error")


WITHOUT_KNOB: Any = replace(DECISION, uid="f" * 32, knob=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "faulty", [Faulty(), Keep("x", BEGAN, {"not": object()}), AddDecisions(BOOT, [WITHOUT_KNOB])], ids=lambda _: ""
)
async def test_a_write_that_is_itself_at_fault_takes_no_other_along(
    path: Path, faulty: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with writing(path) as writer:
        receipts = [writer.put(one) for one in (change(0), faulty, change(1), reading(1))]
        await written(writer)
        assert [receipt.written for receipt in receipts] == [True, False, True, True]
        assert (writer.state().dropped, writer.state().problem) == (1, None)
    assert requested(path) == [0, 1]
    assert sum("dropped a write" in r.message for r in caplog.records) == 1


def damage(path: Path) -> None:
    """Overwrites all but the first page, when all is in the file and nobody has it in memory any more."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("INSERT INTO kept VALUES ('another', 'x', '2026-01-01', '{}')")
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (path.stat().st_size - 4096))


async def filled(path: Path) -> None:
    async with writing(path) as writer:
        writer.put(Keep("rollback", BEGAN, {"values": 1}))
        for number in range(200):
            writer.put(change(number))


async def test_a_damaged_file_is_set_aside_at_the_start_and_a_new_one_begun(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await filled(path)
    damage(path)
    size = size_of(path)
    async with writing(path) as writer:
        assert await writer.commit(change(1), 10)
        aside = writer.state().set_aside
        assert aside is not None
        assert (size_of(aside), aside.name.startswith("history.db.corrupt-")) == (size, True)
    assert requested(path) == [1]
    ((note,),) = rows(path, "SELECT note FROM ledger")
    assert note == f"the history was damaged and set aside as {aside.name}"
    assert any("set aside as" in r.message and r.levelno == logging.ERROR for r in caplog.records)


async def test_what_is_kept_by_name_is_saved_from_a_file_that_is_damaged_elsewhere(path: Path) -> None:
    await filled(path)
    with closing(sqlite3.connect(path)) as other:
        ((page,),) = other.execute("SELECT rootpage FROM sqlite_master WHERE name = 'decisions'").fetchall()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xa5" * 4096)
    async with writing(path) as writer:
        assert writer.state().set_aside is not None
        assert await writer.run(lambda history: history.kept.get("rollback"), 10) == {"values": 1}


async def test_a_file_that_is_damaged_while_it_is_open_is_set_aside_and_nothing_that_waits_is_lost(path: Path) -> None:
    await filled(path)
    async with writing(path) as writer:
        await writer.commit(Keep("rollback", BEGAN, {"values": 2}), 10)
        damage(path)
        for number in range(1000, 1010):
            writer.put(change(number))
        await written(writer)
        assert writer.state().set_aside is not None
        assert await writer.run(lambda history: history.kept.get("rollback"), 10) == {"values": 2}
    assert requested(path) == list(range(1000, 1010))
    assert rows(path, "SELECT count(*) FROM runs JOIN decisions ON run_id = runs.id") == [(10,)]
    assert rows(path, "SELECT count(*) FROM ledger WHERE note IS NOT NULL") == [(1,)]


def delete(path: Path) -> None:
    for companion in ("", "-wal", "-shm"):
        Path(f"{path}{companion}").unlink(missing_ok=True)


async def test_a_file_that_is_deleted_under_the_writer_is_made_anew(path: Path) -> None:
    await filled(path)
    async with writing(path) as writer:
        delete(path)
        assert await writer.commit(change(1), 10)
    assert requested(path) == [1]


async def test_a_history_of_a_newer_version_is_refused_at_the_start(path: Path) -> None:
    await filled(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE alembic_version SET version_num = '9999'")
    writer = Writer(database_url(str(path)), "")
    with pytest.raises(NewerSchema, match="a newer vllm-governor wrote it"):
        await writer.start()


async def test_a_server_that_does_not_answer_stops_no_start_and_its_password_is_not_told() -> None:
    writer = Writer(database_url("postgresql://governor:secret@127.0.0.1:9/history"), "")
    await writer.start()
    assert not await writer.commit(change(1), 10)
    state = writer.state()
    assert state.problem is not None
    assert "127.0.0.1:9" in state.problem
    assert "secret" not in state.problem
    with pytest.raises(HistoryUnavailable, match=r"127\.0\.0\.1:9"):
        await writer.run(lambda history: history.kept.get("x"), 10)
    await writer.stop(0.1)


async def test_what_is_done_for_others_sees_what_was_handed_over_before(path: Path) -> None:
    async with writing(path) as writer:
        for number in range(50):
            writer.put(change(number))
        found = await writer.run(lambda history: history.decisions.select(), 10)
        assert len(found) == 50
        with locked(path):
            writer.put(change(1000))
            await until_failing(writer)
            with pytest.raises(HistoryUnavailable, match="locked"):
                await writer.run(lambda history: history.decisions.select(), 10)


async def test_an_end_that_comes_while_the_file_is_locked_keeps_its_deadline_and_says_what_is_lost(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as lock:
        async with writing(path, stop_s=0.3) as writer:
            lock.enter_context(locked(path))
            writer.put(change(1))
            began = time.perf_counter()
        assert time.perf_counter() - began < 60.0
    assert "history: 1 rows could not be written before the end" in caplog.text


async def test_the_rows_of_an_earlier_writer_are_those_of_the_next(path: Path) -> None:
    await filled(path)
    async with writing(path) as writer:
        await writer.commit(change(500), 10)
    history = History(database_url(str(path)), "", QUICK)
    assert len(await history.decisions.select()) == 201
    await history.close()
