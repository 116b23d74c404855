"""A history on a disk that is full, read for hours, damaged, or not there: the engine is steered all the same."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controller.history.upkeep import Upkeep
from controller.settings import StoreSettings
from domain.decision import Decision, Status
from domain.knobs import MAX_NUM_SEQS
from store.database import Limits
from store.health import Trouble
from store.scribe import MOST
from tests import disks
from tests.loop_rig import Rig, rigged, ticks
from tests.writers import written

FULL = "database or disk is full"
QUEUE = 400


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with disks.small_disk(tmp_path) as disk:
        yield disk


def size(path: Path) -> int:
    return path.stat().st_size


def set_aside(folder: Path) -> list[Path]:
    return [one for one in folder.glob("*.corrupt-*") if not one.name.endswith(("-wal", "-shm"))]


def refuses(path: Path, *statements: str) -> list[str]:
    """What SQLite says to each."""
    said: list[str] = []
    for statement in statements:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            try:
                other.execute(statement)
            except sqlite3.OperationalError as error:
                said.append(str(error))
    return said


async def keep_changing(rig: Rig, count: int) -> None:
    """Ticks in which each sees reason to change something: the engine is set back again and again."""
    rig.engine.waiting = 10_000
    for _ in range(count):
        await ticks(rig, 1)
        if rig.engine.cap > 48:
            rig.engine.cap = rig.engine.running = 8


async def changes(rig: Rig) -> list[Decision]:
    """What the history holds of those that were sent, in its order."""
    await written(rig.writer)
    rows = await rig.history.decisions.select(knob=MAX_NUM_SEQS)
    return [row.decision for row in rows if row.decision.requested is not None]


def sent(rig: Rig) -> list[float]:
    return [patch["knobs"][MAX_NUM_SEQS] for patch in rig.engine.patches]


async def test_d2_on_a_full_disk_control_goes_on_in_bounded_memory_and_all_is_written_when_space_returns(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with rigged(small_disk / "history.db", queue=QUEUE) as rig:
        await keep_changing(rig, 20)
        await written(rig.writer)
        before, filler = len(sent(rig)), disks.fill(small_disk)
        insert, vacuum = "INSERT INTO kept VALUES ('x', 'x', '2026-01-01', hex(zeroblob(9000)))", "VACUUM"
        assert refuses(rig.path, insert, "DELETE FROM decisions", vacuum) == [FULL] * 3
        await keep_changing(rig, 300)
        assert len(sent(rig)) > before + 10
        assert rig.loop.observed.failed_ticks == 0
        state = rig.loop.observed.history
        assert state is not None
        assert (state.trouble, state.pending <= QUEUE + MOST, state.dropped > 0) == (Trouble.FULL, True, True)
        assert sum("control goes on" in r.message for r in caplog.records) == 1
        assert sum("store.queue" in r.message for r in caplog.records) >= 1
        await Upkeep(rig.writer, StoreSettings(seconds_kept_hours=0.001, decisions_kept_days=0.001)).retain()
        filler.unlink()
        found = await changes(rig)
        assert [d.requested for d in found] == sent(rig)  # none lost, none twice, in order
        assert {d.status for d in found} == {Status.APPLIED}
        await ticks(rig, 1)
        assert rig.loop.observed.history is not None
        assert rig.loop.observed.history.problem is None
        assert refuses(rig.path, "PRAGMA quick_check") == []


async def test_d2_a_reader_of_many_hours_lets_the_log_grow_to_its_limit_and_no_further(tmp_path: Path) -> None:
    limit = 300_000
    async with rigged(tmp_path / "history.db", limits=Limits(wal_max_bytes=limit, busy_timeout_s=0.05)) as rig:
        await keep_changing(rig, 5)
        await written(rig.writer)
        with closing(sqlite3.connect(rig.path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM decisions").fetchone()
            async with asyncio.timeout(60):
                while rig.writer.state().problem is None:
                    await keep_changing(rig, 5)
                    await asyncio.sleep(0.05)
            assert "write-ahead log has reached" in (rig.writer.state().problem or "")
            changed = len(sent(rig))
            rig.engine.cap = rig.engine.running = 8
            await keep_changing(rig, 5)
            assert len(sent(rig)) > changed
            with closing(sqlite3.connect(rig.path)) as other:  # written all the same
                ((newest,),) = other.execute(
                    "SELECT requested FROM decisions WHERE requested IS NOT NULL ORDER BY id DESC LIMIT 1"
                ).fetchall()
            assert newest == sent(rig)[-1]
            assert size(Path(f"{rig.path}-wal")) < 2 * limit
            reader.execute("ROLLBACK")
        assert [d.requested for d in await changes(rig)] == sent(rig)
        await written(rig.writer)


def at_the_start(path: Path) -> None:
    """Overwrites 4 KiB in the middle of it, and again further on: no page of a table is spared."""
    with path.open("r+b") as file:
        for place in range(4096, path.stat().st_size, 4096):
            file.seek(place)
            file.write(b"\xa5" * 4096)


def while_it_is_open(path: Path) -> None:
    """The same; before that another process writes, so that no page is taken from memory."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("INSERT INTO kept VALUES ('another', 'x', '2026-01-01', '{}')")
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    at_the_start(path)


@pytest.mark.parametrize("damage", [at_the_start, while_it_is_open])
async def test_d3_a_damaged_file_is_set_aside_whole_and_the_rollback_in_force_is_not_forgotten(
    tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history.db"
    running = damage is while_it_is_open
    async with rigged(path) as rig:
        await keep_changing(rig, 10)
        await rig.loop.roll_back()
        if running:
            await written(rig.writer)
            damage(path)
            await ticks(rig, 3)
            await written(rig.writer)
            assert rig.loop.rollback[0] is not None
            assert await rig.history.kept.get("rollback") is not None
    if not running:
        damage(path)
        async with rigged(path) as rig:
            await rig.loop.restore()
            await keep_changing(rig, 10)
            assert rig.engine.cap > 8
            assert [d.requested for d in await changes(rig)] == sent(rig)
    (aside,) = set_aside(tmp_path)
    assert size(aside) > 4096
    with closing(sqlite3.connect(path)) as fresh:
        assert fresh.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        notes = fresh.execute("SELECT note FROM ledger WHERE note LIKE '%set aside%'").fetchall()
    assert notes == [(f"the history was damaged and set aside as {aside.name}",)]
    assert sum("it was set aside as" in r.message for r in caplog.records) == 1


async def test_a_daemon_whose_history_cannot_be_opened_starts_says_so_and_controls(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "state"
    blocked.write_text("a file where the directory should be")
    async with rigged(blocked / "history.db") as rig:
        await rig.loop.restore()
        await keep_changing(rig, 10)
        assert len(sent(rig)) > 1
        assert sum(r.message.startswith("history: cannot") for r in caplog.records) == 1
        assert rig.loop.observed.failed_ticks == 0
        blocked.unlink()
        assert [d.requested for d in await changes(rig)] == sent(rig)
