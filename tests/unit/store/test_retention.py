"""What is deleted and what stays, on a real SQLite file."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import func, insert, select

from domain.ledger import LedgerEntry
from domain.stretch import AS_READ_S, DAY_S, HOUR_S, MINUTE_S, Reading, reading
from domain.timeline import Times
from domain.view import SIGNALS
from store import health, rollup
from store.database import database_url
from store.history import Chunk, History
from store.models import (
    ActionRow,
    AlertRow,
    Base,
    DecisionRow,
    DeliveryRow,
    LedgerRow,
    QuarantineRow,
    ReadingRow,
    RecordingRow,
    Run,
    SilenceRow,
)
from store.retention import Bounds, Sweep
from store.room import Room
from tests.contract.store.samples import DECISION

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
YEAR = timedelta(days=366)
BOUNDS = Bounds(seconds=timedelta(days=1), minutes=timedelta(days=31), hours=YEAR, decisions=YEAR)
OLD, YOUNG = NOW - YEAR - timedelta(hours=1), NOW - YEAR + timedelta(hours=1)


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[History]:
    history = History(database_url(str(tmp_path / "history.db")), "gpu1:8000")
    await history.open()
    yield history
    await history.close()


async def add(history: History, row: type[Base], *rows: Mapping[str, Any]) -> None:
    async with history.database.transaction() as session:
        await session.execute(insert(row), [{"node": history.node, **one} for one in rows])


async def numbers(history: History, row: type[Base]) -> list[int]:
    table = Base.metadata.tables[row.__tablename__]
    async with history.database.reading() as session:
        return list(await session.scalars(select(table.c.id).order_by(table.c.id)))


async def sweep(history: History, times: Times | None = None, bounds: Bounds = BOUNDS, most_rows: int = 1000) -> int:
    """A whole run; answers in how many pieces."""
    run, pieces = Sweep(bounds, times or Times(NOW, NOW), most_rows), 1
    while await run.piece(history):
        pieces += 1
    return pieces


async def roll_up(history: History) -> None:
    more = True
    while more:
        async with history.database.transaction() as session:
            more = await rollup.roll_up(session, history.node, NOW)


async def kept(history: History) -> dict[int, tuple[datetime, int]]:
    """Resolution to the oldest that is there, and how many there are."""
    query = select(ReadingRow.resolution_s, func.min(ReadingRow.at), func.count()).group_by(ReadingRow.resolution_s)
    async with history.database.reading() as session:
        return {one[0]: (one[1], one[2]) for one in await session.execute(query)}


def decision(at: datetime) -> dict[str, Any]:
    return {
        "at": at,
        "mode": "auto",
        "policy": "p",
        "knob": "k",
        "status": "applied",
        "reason": "r",
        "sentence": "s",
        "evidence": {},
        "guards": [],
    }


async def test_readings_go_when_they_are_too_old_and_their_minutes_and_hours_stay(history: History) -> None:
    began = NOW - timedelta(hours=3)
    await history.readings.add([reading(began + timedelta(minutes=n), [("a", 1.0)], {}) for n in range(120)])
    await roll_up(history)
    await sweep(history, bounds=replace(BOUNDS, seconds=timedelta(hours=2)))
    found = await kept(history)
    assert found == {AS_READ_S: (NOW - timedelta(hours=2), 60), MINUTE_S: (began, 120), HOUR_S: (began, 2)}


async def test_what_has_not_been_rolled_up_stays(history: History) -> None:
    await history.readings.add([reading(NOW - timedelta(days=40), [("a", 1.0)], {})])
    await sweep(history)
    assert (await kept(history))[AS_READ_S][1] == 1


async def test_minutes_go_in_whole_hours_so_that_no_hour_is_half_there(history: History) -> None:
    now = NOW + timedelta(minutes=17)
    began = NOW - timedelta(hours=4)
    await history.readings.add([Reading(began + timedelta(minutes=n), {"a": 1.0}, MINUTE_S) for n in range(240)])
    await roll_up(history)
    await sweep(history, Times(now, now), replace(BOUNDS, minutes=timedelta(hours=2)))
    assert (await kept(history))[MINUTE_S] == (NOW - timedelta(hours=2), 120)


async def test_the_ledger_is_kept_one_step_coarser_than_the_readings_and_goes_after_a_year(history: History) -> None:
    for age in (timedelta(hours=5), timedelta(days=2), timedelta(days=33), YEAR + timedelta(days=2)):
        at = NOW - age
        entries = [LedgerEntry(at + timedelta(minutes=n), MINUTE_S, {}, seconds=60.0, requests=2.0) for n in range(120)]
        await history.ledger.add(None, entries)
    await sweep(history)
    async with history.database.reading() as session:
        query = select(LedgerRow.resolution_s, func.count(), func.sum(LedgerRow.requests))
        found = [tuple(row) for row in await session.execute(query.group_by(LedgerRow.resolution_s))]
    assert sorted(found) == [(MINUTE_S, 120, 240.0), (HOUR_S, 2, 240.0), (DAY_S, 1, 240.0)]


async def test_runs_go_once_no_row_belongs_to_them_but_never_a_nodes_newest(history: History) -> None:
    at = [OLD - timedelta(days=10 - n) for n in range(6)]
    await add(history, Run, *[{**_RUN, "started_at": one} for one in at], {"node": "gpu2:8000", **_RUN})
    await history.readings.add([replace(reading(NOW, [("a", 1.0)], {}), run_id=1)])
    await history.ledger.add(2, [LedgerEntry(NOW, MINUTE_S, {})])
    await history.recordings.add(3, Chunk(NOW, NOW, 1, b"x"), keep=1)
    await history.decisions.add(4, [DECISION])
    await add(history, Run, {**_RUN, "started_at": YOUNG}, {**_RUN, "started_at": NOW})
    await add(history, DecisionRow, decision(OLD) | {"run_id": 6})  # goes in the same sweep
    await sweep(history)
    assert await numbers(history, Run) == [1, 2, 3, 4, 7, 8, 9]


async def test_decisions_alerts_deliveries_and_actions_go_after_a_year(history: History) -> None:
    alert = {"rule": "r", "severity": "s", "state": "resolved", "labels": {}, "annotations": {}}
    for number, at in enumerate((OLD, YOUNG)):
        await add(history, DecisionRow, decision(at))
        name = str(number)
        await add(history, AlertRow, alert | {"fingerprint": name, "starts_at": at, "updated_at": at, "ends_at": at})
        sent = {"uid": name, "receiver": "r", "group_key": "g", "attempts": 1, "body": {}, "created_at": at}
        await add(history, DeliveryRow, sent | {"status": "delivered"})
        told = {"actor": "a", "action": "b", "target": "c", "detail": {}, "result": "done"}
        await add(history, ActionRow, told | {"at": at})
        silence = {"matchers": [], "starts_at": at, "ends_at": at, "created_by": "a", "comment": "b"}
        await add(history, SilenceRow, silence)
    await sweep(history)
    for row in (DecisionRow, AlertRow, DeliveryRow, ActionRow, SilenceRow):
        assert await numbers(history, row) == [2], row


async def test_an_alert_that_fires_and_a_notification_that_waits_never_go(history: History) -> None:
    alert = {"rule": "r", "severity": "s", "state": "firing", "labels": {}, "annotations": {}, "fingerprint": "1"}
    await add(history, AlertRow, alert | {"starts_at": OLD, "updated_at": OLD})
    waits = {"uid": "1", "receiver": "r", "group_key": "g", "attempts": 1, "body": {}, "created_at": OLD}
    await add(history, DeliveryRow, waits | {"status": "pending"})
    await sweep(history)
    assert (await numbers(history, AlertRow), await numbers(history, DeliveryRow)) == ([1], [1])


async def test_recordings_keep_their_own_rule(history: History) -> None:
    await history.recordings.add(None, Chunk(OLD, OLD, 1, b"x"), keep=10)
    await sweep(history)
    assert await numbers(history, RecordingRow) == [1]


async def test_rows_go_in_pieces(history: History) -> None:
    await add(history, DecisionRow, *[decision(OLD)] * 95, *[decision(YOUNG)] * 5)
    idle = await sweep(history, bounds=Bounds(YEAR, YEAR, YEAR, 2 * YEAR))
    assert await sweep(history, most_rows=10) == idle + 10
    assert len(await numbers(history, DecisionRow)) == 5


async def test_a_piece_holds_the_lock_briefly(history: History) -> None:
    """In this process's own processor time: other work on the machine must not decide it."""
    whole = decision(OLD) | {"evidence": {f"signal_{n}": n * 1.5 for n in range(20)}, "sentence": "s" * 200}
    await add(history, DecisionRow, *[whole] * 5000)
    run, took_s, more = Sweep(BOUNDS, Times(NOW, NOW)), [], True
    while more:
        began = time.process_time()
        more = await run.piece(history)
        took_s.append(time.process_time() - began)
    assert sorted(took_s)[-3] < 0.5
    assert await numbers(history, DecisionRow) == []


async def test_rows_of_another_node_that_lives_are_its_own_business(history: History) -> None:
    other = History(history.url, "gpu2:8000")
    await add(other, DecisionRow, decision(OLD))
    await other.readings.add([reading(NOW - timedelta(minutes=1), [("a", 1.0)], {})])
    await sweep(history)
    assert await numbers(history, DecisionRow) == [1]
    await other.close()


async def test_rows_of_a_node_that_has_been_silent_for_a_day_are_cared_for(history: History) -> None:
    """It was renamed, or its machine is gone. Its last readings are rolled up, then they go."""
    other = History(history.url, "gpu2:8000")
    await add(other, DecisionRow, decision(OLD))
    began = NOW - timedelta(days=2)
    await other.readings.add([reading(began + timedelta(seconds=n), [("a", 1.0)], {}) for n in range(120)])
    await add(history, Run, {"node": "gone", **_RUN})
    await add(history, DecisionRow, {"node": "gone", **decision(OLD)})
    await sweep(history)
    assert await numbers(history, DecisionRow) == [1, 2]  # this node has not run for a day yet
    await history.readings.add([reading(NOW - timedelta(hours=25), [("a", 1.0)], {})])
    await sweep(history)
    assert await numbers(history, DecisionRow) == []
    query = select(ReadingRow.resolution_s).where(ReadingRow.node == other.node).order_by(ReadingRow.resolution_s)
    async with history.database.reading() as session:
        assert list(await session.scalars(query)) == [60, 60, 3600]
    await other.close()


_RUN = {
    "started_at": OLD,
    "engine_url": "u",
    "boot_id": "b",
    "vllm_version": "v",
    "plugin_version": "p",
    "envelope": {},
}


async def test_what_was_set_apart_goes_a_year_after(history: History) -> None:
    async with history.database.transaction() as session:
        for moved_at in (OLD, YOUNG):
            await session.execute(insert(QuarantineRow), [{"moved_at": moved_at, "origin": "decisions", "row": {}}])
    await sweep(history)
    assert await numbers(history, QuarantineRow) == [2]


async def make_room(history: History, room: Room) -> int:
    pieces = 1
    while await room.piece(history):
        pieces += 1
    return pieces


async def test_a_file_that_nears_its_limit_gives_up_recordings_and_then_readings(history: History) -> None:
    for minute in range(100):
        at = NOW + timedelta(minutes=minute)
        await history.recordings.add(None, Chunk(at, at, 1, b"x" * 10_000), keep=1000)
    chance, began = Random(1), NOW - timedelta(hours=1)
    signals = [[(name, chance.random()) for name in SIGNALS] for _ in range(10)]
    await history.readings.add([reading(began + timedelta(seconds=n), signals[n % 10], {}) for n in range(3000)])
    await roll_up(history)
    async with history.database.outside() as connection:
        await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    used_bytes = health.file_bytes(Path(history.where)) or 0
    room = Room(round(used_bytes / 0.95))
    await make_room(history, room)
    assert "the oldest recordings go before their time; raise it" in (room.problem or "")
    assert 0 < len(await numbers(history, RecordingRow)) < 100
    assert (await kept(history))[AS_READ_S][1] == 3000
    smaller = Room(round(used_bytes / 2))
    await make_room(history, smaller)
    assert "recordings and readings go" in (smaller.problem or "")
    assert await numbers(history, RecordingRow) == []
    found = await kept(history)
    assert 0 < found[AS_READ_S][1] < 3000
    assert found[MINUTE_S][1] == 50


async def test_a_file_with_room_is_left_alone(history: History) -> None:
    await history.recordings.add(None, Chunk(NOW, NOW, 1, b"x"), keep=1)
    room = Room(16_000_000)
    assert await make_room(history, room) == 1
    assert room.problem is None
    assert await numbers(history, RecordingRow) == [1]


async def test_where_nothing_may_go_before_its_time_it_is_said(history: History) -> None:
    await add(history, DecisionRow, *[decision(YOUNG) | {"sentence": "s" * 1000}] * 1000)
    room = Room(1_000_000)
    await make_room(history, room)
    assert (room.problem or "").startswith("cannot make room: the history nears store.max_mb = 1 and")
    assert len(await numbers(history, DecisionRow)) == 1000
