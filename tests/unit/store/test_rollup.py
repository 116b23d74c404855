"""Minutes made of readings and hours of minutes, on a real SQLite file."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from domain.stretch import HOUR_S, MINUTE_S, Reading, reading
from domain.view import SIGNALS
from store import readings, rollup
from store.database import database_url
from store.history import History

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(days=1)


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[History]:
    history = History(database_url(str(tmp_path / "history.db")), "gpu1:8000")
    await history.open()
    yield history
    await history.close()


def ticks(first: int, last: int, running: float = 1.0) -> list[Reading]:
    return [reading(NOON + timedelta(seconds=n), [("running", running)], {}) for n in range(first, last)]


async def roll_up(history: History, now: datetime = LATER) -> int:
    """All there is to do; answers in how many pieces."""
    for pieces in count(1):
        async with history.database.transaction() as session:
            if not await rollup.roll_up(session, history.node, now):
                return pieces
    raise AssertionError


async def made(history: History, resolution_s: int) -> Sequence[Reading]:
    async with history.database.reading() as session:
        return await readings.within(session, history.node, resolution_s, NOON - timedelta(days=9), LATER)


async def test_a_minute_is_made_of_its_readings_and_an_hour_of_its_minutes(history: History) -> None:
    await history.readings.add([*ticks(0, 60, 1.0), *ticks(60, 120, 2.0), *ticks(120, 150, 6.0)])
    await roll_up(history)
    assert [(one.means["running"], one.samples) for one in await made(history, MINUTE_S)] == [
        (1.0, 60),
        (2.0, 60),
        (6.0, 30),
    ]
    (hour,) = await made(history, HOUR_S)
    assert (hour.at, hour.samples, hour.means["running"], hour.high("running")) == (NOON, 150, 2.4, 6.0)


async def test_a_minute_that_still_runs_is_not_made(history: History) -> None:
    await history.readings.add(ticks(0, 90))
    await roll_up(history, NOON + timedelta(seconds=90))
    assert [one.at for one in await made(history, MINUTE_S)] == [NOON]
    assert await made(history, HOUR_S) == []


async def test_work_that_is_repeated_changes_nothing(history: History) -> None:
    await history.readings.add(ticks(0, 300))
    await roll_up(history)
    before = await made(history, MINUTE_S)
    assert await roll_up(history) == 1
    assert await made(history, MINUTE_S) == before


async def test_a_piece_that_is_cut_off_is_done_again_and_nothing_is_counted_twice(history: History) -> None:
    """The marks are in the transaction of what they say; a crash takes both."""
    await history.readings.add(ticks(0, 300))

    class CutOff(Exception):
        pass

    with pytest.raises(CutOff):
        async with history.database.transaction() as session:
            await rollup.roll_up(session, history.node, LATER)
            raise CutOff
    await roll_up(history)
    assert [one.samples for one in await made(history, MINUTE_S)] == [60] * 5
    assert [one.samples for one in await made(history, HOUR_S)] == [300]


async def test_readings_that_come_late_make_their_minute_and_hour_again(history: History) -> None:
    """They waited in memory while the disk was full; or the clock stepped back."""
    await history.readings.add([*ticks(0, 20), *ticks(60, 120)])
    await roll_up(history)
    await history.readings.add(ticks(20, 60, running=4.0))
    await roll_up(history)
    assert [(one.samples, one.means["running"]) for one in await made(history, MINUTE_S)] == [(60, 3.0), (60, 1.0)]
    assert [(one.samples, one.means["running"]) for one in await made(history, HOUR_S)] == [(120, 2.0)]


async def test_a_straggler_does_not_undo_a_minute_whose_readings_have_been_dropped(history: History) -> None:
    await history.readings.add(ticks(0, 59))
    await roll_up(history)
    async with history.database.transaction() as session:
        await session.execute(readings.TABLE.delete().where(readings.TABLE.c.resolution_s == 1))
    await history.readings.add(ticks(400, 401))
    await history.readings.add(ticks(59, 60, running=100.0))
    await roll_up(history)
    first = (await made(history, MINUTE_S))[0]
    assert (first.samples, first.means["running"]) == (59, 1.0)


async def test_marks_of_another_file_are_not_believed(history: History) -> None:
    """What was kept is saved out of a damaged file and put into the new one."""
    await history.kept.put("rolled_up_1", NOON, {"id": 500_000})
    await history.readings.add(ticks(0, 120))
    await roll_up(history)
    assert [one.samples for one in await made(history, MINUTE_S)] == [60, 60]


async def test_a_piece_ends_after_some_stretches_and_the_next_goes_on(history: History) -> None:
    await history.readings.add([reading(NOON + timedelta(seconds=10 * n), [("a", 1.0)], {}) for n in range(540)])
    assert await roll_up(history) == 90 / rollup.MOST_STRETCHES + 2  # the hours, and one that finds nothing
    assert [one.samples for one in await made(history, MINUTE_S)] == [6] * 90
    assert [one.samples for one in await made(history, HOUR_S)] == [360, 180]


async def test_a_clock_that_steps_to_and_fro_makes_each_minute_once(history: History) -> None:
    await history.readings.add([*ticks(7200, 7230), *ticks(0, 30), *ticks(7230, 7260), *ticks(30, 60)])
    await roll_up(history)
    assert [one.samples for one in await made(history, MINUTE_S)] == [60, 60]
    assert [one.samples for one in await made(history, HOUR_S)] == [60, 60]


async def test_a_piece_takes_some_tens_of_milliseconds_however_much_there_is_to_do(history: History) -> None:
    """In this process's own processor time: other work on the machine must not decide it, so there is room for it."""
    signals = [(name, 123.456) for name in SIGNALS]
    await history.readings.add(
        [reading(NOON + timedelta(seconds=n), signals, {"max_num_seqs": 8.0}) for n in range(3600)]
    )
    took_s, more = [], True
    while more:
        async with history.database.transaction() as session:
            began = time.process_time()
            more = await rollup.roll_up(session, history.node, LATER)
            took_s.append(time.process_time() - began)
    assert sorted(took_s)[len(took_s) // 2] < 1.5
    assert [one.samples for one in await made(history, HOUR_S)] == [3600]


async def test_what_a_silent_node_has_left_is_found_without_looking_at_the_rows_of_those_that_live(
    history: History,
) -> None:
    """By the index: between its mark and now stand all that the others wrote since."""
    await history.readings.add(ticks(0, 60))
    found: list[tuple[str, Any]] = []
    async with history.database.transaction() as session:
        connection = await session.connection()
        assert connection.sync_connection is not None
        note = lambda _c, _k, statement, values, *_: found.append((statement, values))  # noqa: E731
        event.listen(connection.sync_connection, "before_cursor_execute", note)
        while await rollup.roll_up(session, history.node, LATER, silent=True):
            pass
        query, values = next(one for one in found if "ORDER BY readings.id +" in one[0])
        plan = str((await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", tuple(values))).all())
    assert "SEARCH readings USING COVERING INDEX" in plan
    assert "(node=? AND resolution_s=?)" in plan
    assert "SCAN" not in plan
