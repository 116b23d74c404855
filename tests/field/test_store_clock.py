"""Field case D4: a wrong clock wrote rows into the future, and correcting it upset retention.

ZerosAndOnesLLC/AiFw#272, netdata/netdata PR#4109: ten rows dated 400 days ahead, the clock steps back, retention runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from domain.ledger import LedgerEntry
from domain.stretch import reading
from store.database import database_url
from store.history import Chunk, History
from store.maintenance import Maintenance
from store.models import Base, DecisionRow, LedgerRow, QuarantineRow, ReadingRow, RecordingRow
from store.retention import Bounds
from tests.changes import GROWN

NOON = GROWN.at
YEAR = timedelta(days=366)
BOUNDS = Bounds(seconds=timedelta(days=1), minutes=timedelta(days=31), hours=YEAR, decisions=YEAR)
AHEAD = timedelta(days=400)
DECISION = replace(GROWN, evidence={"demand": 9.0})


class Machine:
    """A daemon's history and the clocks of its machine."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.work = Maintenance(BOUNDS, None)
        self.wall = NOON
        self.monotonic_s = 100.0

    def restart(self) -> None:
        """The monotonic clock may begin anew as well."""
        self.work, self.monotonic_s = Maintenance(BOUNDS, None), 5.0

    async def live(self, minutes: int) -> None:
        """A row of each kind a minute, the retention every ten."""
        for minute in range(minutes):
            self.wall += timedelta(minutes=1)
            self.monotonic_s += 60.0
            await self.write()
            if minute % 10 == 9:
                await self.keep_up()

    async def write(self) -> None:
        await self.history.decisions.add(None, [replace(DECISION, at=self.wall)])
        await self.history.readings.add([reading(self.wall, [("running", 1.0)], {})])
        await self.history.ledger.add(None, [LedgerEntry(self.wall, 60, {}, seconds=60.0)])
        await self.history.recordings.add(None, Chunk(self.wall, self.wall, 1, b"\0seen"), keep=10_000)

    async def keep_up(self) -> None:
        while await self.work.roll_up(self.history, self.wall):
            pass
        while await self.work.retain(self.history, self.wall, self.monotonic_s):
            pass

    async def counts(self) -> list[int]:
        """Of decisions, single readings, recordings and the ledger's minutes."""
        tables = [Base.metadata.tables[row.__tablename__] for row in (DecisionRow, RecordingRow)]
        queries = [select(func.count()).select_from(table) for table in tables]
        queries += [
            select(func.count()).where(row.resolution_s == step) for row, step in ((ReadingRow, 1), (LedgerRow, 60))
        ]
        async with self.history.database.reading() as session:
            return [await session.scalar(query) or 0 for query in queries]

    async def set_apart(self) -> list[QuarantineRow]:
        async with self.history.database.reading() as session:
            return list(await session.scalars(select(QuarantineRow).order_by(QuarantineRow.id)))


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    history = History(database_url(str(tmp_path / "history.db")), "gpu1:8000")
    await history.open()
    yield Machine(history)
    await history.close()


async def test_rows_dated_into_the_future_are_set_apart_whole_and_valid_rows_stay(machine: Machine) -> None:
    await machine.live(30)
    machine.wall += AHEAD
    await machine.live(10)
    machine.wall -= AHEAD
    await machine.live(10)
    assert await machine.counts() == [40] * 4
    apart = await machine.set_apart()
    origins = [row.origin for row in apart]
    assert {name: origins.count(name) for name in origins if name != "readings"} == {
        "decisions": 10,
        "recordings": 10,
        "ledger": 10,
    }
    assert sum(row.row["resolution_s"] == 1 for row in apart if row.origin == "readings") == 10
    one = next(row.row for row in apart if row.origin == "decisions")
    assert one["at"] == (NOON + AHEAD + timedelta(minutes=31)).isoformat()
    assert (one["sentence"], one["evidence"], one["node"]) == (DECISION.sentence, {"demand": 9.0}, "gpu1:8000")
    assert next(row.row for row in apart if row.origin == "recordings")["body"] == {"base64": "AHNlZW4="}


async def test_nothing_is_deleted_while_the_clock_is_ahead(machine: Machine) -> None:
    await machine.live(30)
    machine.wall += AHEAD
    await machine.live(60)
    assert await machine.counts() == [90] * 4
    assert await machine.set_apart() == []  # which clock was wrong is not known yet
    assert "400 days ahead" in (machine.work.clock_problem or "")


async def test_a_restart_under_a_wrong_clock_deletes_nothing(machine: Machine) -> None:
    await machine.live(30)
    machine.wall += AHEAD
    await machine.live(20)
    machine.restart()
    await machine.live(20)
    assert await machine.counts() == [70] * 4


async def test_a_first_start_finds_the_rows_of_a_clock_that_was_set_right_before(machine: Machine) -> None:
    """The daemon was down when the clock was set, and no retention has run yet."""
    for _ in range(10):
        machine.wall += timedelta(minutes=1)
        await machine.write()
    machine.wall += AHEAD
    await machine.write()
    machine.wall -= AHEAD
    machine.restart()
    await machine.keep_up()
    assert await machine.counts() == [10] * 4
    assert len([row for row in await machine.set_apart() if row.origin == "decisions"]) == 1


async def test_a_clock_that_falls_back_by_mistake_sets_nothing_apart(machine: Machine) -> None:
    await machine.live(30)
    machine.wall -= timedelta(days=10)
    await machine.live(30)
    assert await machine.set_apart() == []
    machine.wall += timedelta(days=10)
    await machine.live(30)
    assert await machine.set_apart() == []
    decisions, recordings, readings, ledger = await machine.counts()
    assert (decisions, recordings) == (90, 90)
    # Those of the wrong clock are old now: the minutes of the one and the hours of the other are kept for a month.
    assert (readings, ledger) == (60, 60)
    entries = await machine.history.ledger.entries(NOON - timedelta(days=20), machine.wall + timedelta(days=1))
    assert sum(one.seconds for one in entries) == 90 * 60
    found = await machine.history.readings.span(NOON - timedelta(days=20), machine.wall + timedelta(days=1))
    assert sum(one.samples for one in found) == 90


async def test_a_first_start_under_a_clock_that_fell_back_sets_nothing_apart(machine: Machine) -> None:
    for _ in range(10):
        machine.wall += timedelta(minutes=1)
        await machine.write()
    machine.wall -= AHEAD
    await machine.keep_up()
    assert await machine.counts() == [10] * 4
    assert await machine.set_apart() == []


async def test_the_latest_is_the_one_written_last_and_questions_by_time_are_not_misled(machine: Machine) -> None:
    await machine.live(30)
    machine.wall += AHEAD
    await machine.live(10)
    machine.wall -= AHEAD
    await machine.write()
    latest = await machine.history.readings.latest()
    assert latest is not None
    assert latest.at == machine.wall
    (newest,) = await machine.history.decisions.select(limit=1)
    assert newest.decision.at == machine.wall
    await machine.live(10)
    since = await machine.history.decisions.select(since=machine.wall - timedelta(minutes=5))
    assert [one.decision.at for one in since] == [machine.wall - timedelta(minutes=n) for n in (5, 4, 3, 2, 1, 0)]


async def test_readings_written_after_the_future_was_set_apart_are_rolled_up(machine: Machine) -> None:
    """Their numbers are those that the rows had which were taken away."""
    await machine.live(30)
    machine.wall += AHEAD
    await machine.live(10)
    machine.wall -= AHEAD
    await machine.live(20)
    machine.wall += timedelta(minutes=2)
    await machine.keep_up()
    found = await machine.history.readings.span(NOON, NOON + timedelta(hours=2), points=10_000)
    async with machine.history.database.reading() as session:
        minutes = await session.scalar(select(func.sum(ReadingRow.samples)).where(ReadingRow.resolution_s == 60))
    assert sum(one.samples for one in found) == 50
    assert minutes == 50


@pytest.fixture
async def newcomer(machine: Machine) -> AsyncIterator[Machine]:
    """A machine that joins the same history."""
    history = History(machine.history.url, "gpu2:8000")
    yield Machine(history)
    await history.close()


async def test_a_new_node_with_a_wrong_clock_deletes_nothing_of_a_fleet(machine: Machine, newcomer: Machine) -> None:
    """Neither at once, nor once its clock has stood so for a day and is believed."""
    await machine.live(30)
    newcomer.wall = machine.wall + AHEAD
    await newcomer.keep_up()
    assert "400 days ahead" in (newcomer.work.clock_problem or "")
    for _ in range(30):
        for one in (machine, newcomer):
            one.wall += timedelta(hours=1)
            one.monotonic_s += 3600.0
            await one.write()
        await newcomer.keep_up()
    assert newcomer.work.clock_problem is None
    async with machine.history.database.reading() as session:
        of_fleet = [
            await session.scalar(select(func.count()).where(row.node == machine.history.node, *more))
            for row, *more in (
                (DecisionRow,),
                (RecordingRow,),
                (ReadingRow, ReadingRow.resolution_s == 1),
                (LedgerRow, LedgerRow.resolution_s == 60),
            )
        ]
    assert of_fleet == [60, 60, 60, 60]
    assert await machine.set_apart() == []


async def test_a_node_whose_clock_is_far_behind_is_not_called_silent(machine: Machine, newcomer: Machine) -> None:
    newcomer.wall = machine.wall - AHEAD
    for _ in range(30):
        for one in (machine, newcomer):
            one.wall += timedelta(hours=1)
            one.monotonic_s += 3600.0
            await one.write()
        await machine.keep_up()
    async with machine.history.database.reading() as session:
        assert await session.scalar(select(func.count()).where(DecisionRow.node == "gpu2:8000")) == 30


@pytest.mark.parametrize("wrong", [datetime(1970, 1, 2, tzinfo=UTC), NOON + AHEAD])
async def test_a_first_start_after_an_upgrade_under_a_wrong_clock_touches_no_older_row(
    machine: Machine, wrong: datetime
) -> None:
    """Those rows have no node yet."""
    before = Machine(History(machine.history.url, ""))
    for _ in range(10):
        before.wall += timedelta(minutes=1)
        await before.write()
    await before.history.close()
    machine.wall = wrong
    for _ in range(3):
        machine.monotonic_s += 600.0
        await machine.keep_up()
    assert await machine.counts() == [10] * 4
    assert await machine.set_apart() == []
