"""What was measured before and after a change, and its neighbours, on a real SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controller.history.around import Around, around
from domain.decision import Decision, Status
from domain.stretch import Reading
from store.database import database_url
from store.history import History
from tests.changes import GROWN

NODE = "node-1"
AT = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
CHANGE = replace(GROWN, at=AT)


def later(seconds: float, **changes: Any) -> Decision:
    return replace(CHANGE, at=AT + timedelta(seconds=seconds), **changes)


def read(seconds: float, running: float, resolution_s: int = 1) -> Reading:
    return Reading(AT + timedelta(seconds=seconds), {"running": running}, resolution_s)


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[History]:
    history = History(database_url(str(tmp_path / "history.db")), NODE)
    await history.open()
    yield history
    await history.close()


async def seen(history: History, decisions: list[Decision], which: int, window_s: float = 60.0) -> Around:
    numbers = await history.decisions.add(None, decisions)
    found = await history.decisions.one(numbers[which])
    assert found is not None
    return await around(history, found[0], window_s)


def running(near: Around) -> tuple[float | None, float | None]:
    sides = (near.before, near.after)
    before, after = (None if one is None or one.means is None else one.means.means["running"] for one in sides)
    return before, after


async def test_the_means_are_of_the_window_before_and_of_as_much_once_it_took_effect(history: History) -> None:
    """The cap takes effect within 3 s: what was read until then belongs to neither side."""
    await history.readings.add([read(-61, 99.0), read(-60, 6.0), read(-1, 8.0)])
    await history.readings.add([read(0, 99.0), read(2, 99.0), read(3, 15.0), read(62, 17.0), read(63, 99.0)])
    assert running(await seen(history, [CHANGE], 0)) == (7.0, 16.0)


async def test_neither_side_reaches_past_another_change_of_the_same_knob(history: History) -> None:
    await history.readings.add([read(-50, 4.0), read(-20, 8.0), read(10, 16.0), read(40, 32.0)])
    changes = [later(-30, old=4, requested=8, observed=8), CHANGE, later(30, old=16, requested=32, observed=32)]
    near = await seen(history, changes, 1)
    assert running(near) == (8.0, 16.0)
    assert near.earlier is not None
    assert near.later is not None
    assert (near.earlier.decision.old, near.later.decision.old) == (4, 16)
    assert near.others == (near.earlier,)


async def test_changes_of_other_knobs_meanwhile_are_named(history: History) -> None:
    other = later(20, knob="hot_cache_ratio")
    held = later(25, knob="hot_cache_ratio", status=Status.HOLD)
    near = await seen(history, [CHANGE, other, held, later(90, knob="hot_cache_ratio")], 0)
    assert [one.id for one in near.others] == [2]
    assert (near.earlier, near.later) == (None, None)


async def test_a_minute_that_holds_the_change_is_of_neither_side_and_hours_say_nothing(history: History) -> None:
    await history.readings.add([read(minute * 60, 10.0 + minute, 60) for minute in range(-3, 4)])
    assert running(await seen(history, [later(10)], 0, window_s=180.0)) == (8.5, 11.5)


async def test_where_only_hours_are_kept_nothing_is_compared(history: History) -> None:
    await history.readings.add([read(-1800, 5.0, 3600), read(1800, 5.0, 3600)])
    assert running(await seen(history, [CHANGE], 0, window_s=300.0)) == (None, None)


async def test_a_hold_has_neighbours_and_no_sides(history: History) -> None:
    held = later(10, status=Status.HOLD, requested=None)
    near = await seen(history, [CHANGE, later(5, status=Status.HOLD), held], 2)
    assert (near.before, near.after) == (None, None)
    assert near.earlier is not None
    assert near.earlier.id == 1


async def test_another_nodes_readings_and_changes_do_not_count(history: History) -> None:
    other = History(history.url, "node-2")
    await other.decisions.add(None, [later(-10), later(10)])
    await other.readings.add([read(-5, 99.0), read(5, 99.0)])
    await history.readings.add([read(-5, 8.0), read(5, 16.0)])
    near = await seen(history, [CHANGE], 0)
    assert running(near) == (8.0, 16.0)
    assert (near.earlier, near.later, near.others) == (None, None, ())
    await other.close()
