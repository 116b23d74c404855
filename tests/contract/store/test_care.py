"""Rolling up, retention and quarantine, on every database."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import func, select

from domain.stretch import AS_READ_S, HOUR_S, MINUTE_S, reading
from store.history import History
from store.maintenance import Maintenance
from store.models import QuarantineRow, ReadingRow
from store.retention import Bounds
from tests.changes import GROWN

NOON = GROWN.at
BOUNDS = Bounds(timedelta(hours=1), timedelta(hours=2), timedelta(days=366), timedelta(days=366))
DECISION = replace(GROWN, evidence={"demand": 9.0}, guards=("cooldown",))


async def counts(history: History) -> dict[int, int]:
    query = select(ReadingRow.resolution_s, func.count()).group_by(ReadingRow.resolution_s)
    async with history.database.reading() as session:
        return {row[0]: row[1] for row in await session.execute(query.order_by(ReadingRow.resolution_s))}


async def care(history: History, work: Maintenance, wall: datetime, monotonic_s: float = 0.0) -> None:
    while await work.roll_up(history, wall):
        pass
    while await work.retain(history, wall, monotonic_s):
        pass
    await work.make_room(history)
    await work.optimize(history)


async def test_readings_become_minutes_and_hours_and_go_by_their_bounds(history: History) -> None:
    began = NOON - timedelta(hours=3)
    rows = [reading(began + timedelta(seconds=20 * n), [("running", float(n % 3))], {}) for n in range(540)]
    await history.readings.add(rows)
    await care(history, Maintenance(BOUNDS, 1_000_000_000), NOON + timedelta(seconds=30))
    assert await counts(history) == {AS_READ_S: 180, MINUTE_S: 120, HOUR_S: 3}
    found = await history.readings.span(began, NOON, points=1000)
    assert [one.resolution_s for one in found] == [HOUR_S] + [MINUTE_S] * 60 + [AS_READ_S] * 180
    assert sum(one.samples for one in found) == 540
    assert (found[0].means, found[0].highs) == ({"running": 1.0}, {"running": 2.0})


async def test_care_that_is_repeated_changes_nothing(history: History) -> None:
    await history.readings.add([reading(NOON + timedelta(seconds=n), [("running", 1.0)], {}) for n in range(150)])
    work = Maintenance(BOUNDS, None)
    await care(history, work, NOON + timedelta(minutes=5))
    before = await counts(history)
    await care(history, work, NOON + timedelta(minutes=5))
    assert await counts(history) == before == {AS_READ_S: 150, MINUTE_S: 3}


async def test_what_a_wrong_clock_dated_ahead_is_set_apart_whole(history: History) -> None:
    work = Maintenance(BOUNDS, None)
    await history.decisions.add(None, [DECISION])
    await history.readings.add([reading(NOON, [("running", 1.0)], {})])
    await care(history, work, NOON)
    ahead = NOON + timedelta(days=400)
    await history.decisions.add(None, [replace(DECISION, at=ahead)])
    await history.readings.add([reading(ahead, [("running", 1.0)], {"max_num_seqs": 8.0})])
    await care(history, work, NOON + timedelta(minutes=10), 600.0)
    assert [one.decision.at for one in await history.decisions.select()] == [NOON]
    async with history.database.reading() as session:
        apart = {row.origin: row.row for row in await session.scalars(select(QuarantineRow))}
    assert (apart["decisions"]["at"], apart["decisions"]["guards"]) == (ahead.isoformat(), ["cooldown"])
    assert apart["readings"]["means"] == {"running": 1.0, "knob:max_num_seqs": 8.0}
