"""Readings on a real SQLite file: written once, found again at the finest resolution that is kept."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domain.stretch import AS_READ_S, HOUR_S, MINUTE_S, Reading, begin, merged, reading
from store.database import database_url
from store.history import History

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[History]:
    history = History(database_url(str(tmp_path / "history.db")), "gpu1:8000")
    await history.open()
    yield history
    await history.close()


def tick(second: float, running: float = 1.0) -> Reading:
    return reading(NOON + timedelta(seconds=second), [("running", running)], {"max_num_seqs": 8.0})


def stretch(at: datetime, resolution_s: int, running: float = 1.0) -> Reading:
    return Reading(at, {"running": running}, resolution_s, samples=resolution_s, highs={"running": 9.0})


async def test_a_reading_comes_back_as_it_was_written(history: History) -> None:
    one = reading(
        NOON, [("running", 3.0), ("waiting", None), ("demand", math.nan)], {"max_num_seqs": math.inf, "hot": 0.25}
    )
    await history.readings.add([one])
    found = await history.readings.at(NOON)
    assert found is not None
    assert found.means == {"running": 3.0, "knob:max_num_seqs": None, "knob:hot": 0.25}
    assert found.knobs == {"max_num_seqs": None, "hot": 0.25}
    assert (found.at, found.node, found.samples, found.highs) == (NOON, "gpu1:8000", 1, {})


async def test_a_reading_that_is_written_again_is_replaced(history: History) -> None:
    await history.readings.add([tick(0), tick(1)])
    await history.readings.add([tick(1, running=5.0), tick(2)])
    found = await history.readings.span(NOON, NOON + timedelta(minutes=1))
    assert [one.means["running"] for one in found] == [1.0, 5.0, 1.0]


async def test_each_part_of_a_span_comes_at_the_finest_resolution_that_is_kept_of_it(history: History) -> None:
    """Hours alone before noon, minutes from noon on, single readings from 14:30 on; all hours and minutes are there."""
    hours = [stretch(NOON + timedelta(hours=n), HOUR_S) for n in range(-3, 2)]
    minutes = [stretch(NOON + timedelta(minutes=n), MINUTE_S) for n in range(155)]
    seconds = [tick(9000 + n) for n in range(330)]
    await history.readings.add([*hours, *minutes, *seconds])
    found = await history.readings.span(NOON - timedelta(days=1), NOON + timedelta(days=1), points=5000)
    kinds = [one.resolution_s for one in found]
    assert kinds == [HOUR_S] * 3 + [MINUTE_S] * 150 + [AS_READ_S] * 330
    assert [one.at for one in found] == sorted(one.at for one in found)


async def test_the_part_that_is_not_rolled_up_yet_ends_a_coarse_span(history: History) -> None:
    await history.readings.add([stretch(NOON + timedelta(minutes=n), MINUTE_S) for n in range(50)])
    await history.readings.add([tick(n) for n in range(3015)])
    found = await history.readings.span(NOON, NOON + timedelta(hours=1), points=50)
    assert found[-1].at >= NOON + timedelta(minutes=50)
    assert sum(one.samples for one in found) == 3015
    assert len(found) <= 50


async def test_a_span_has_no_more_points_than_asked_for_and_loses_no_sample(history: History) -> None:
    await history.readings.add([tick(n, running=float(n)) for n in range(1000)])
    found = await history.readings.span(NOON, NOON + timedelta(hours=1), points=300)
    assert len(found) == 250
    assert sum(one.samples for one in found) == 1000
    assert (found[0].means["running"], found[0].high("running")) == (1.5, 3.0)


async def test_the_state_at_a_moment_is_the_finest_that_began_last_before_it(history: History) -> None:
    minute = stretch(NOON + timedelta(minutes=2), MINUTE_S)
    await history.readings.add([stretch(NOON, HOUR_S), minute, tick(10), tick(20)])

    async def began(second: float) -> tuple[int, datetime] | None:
        found = await history.readings.at(NOON + timedelta(seconds=second))
        return None if found is None else (found.resolution_s, found.at)

    assert await began(-1) is None
    assert await began(0) == (HOUR_S, NOON)
    assert await began(15) == (AS_READ_S, NOON + timedelta(seconds=10))
    assert await began(130) == (MINUTE_S, minute.at)


async def test_the_latest_reading_is_the_one_that_was_written_last(history: History) -> None:
    assert await history.readings.latest() is None
    await history.readings.add([tick(400 * 86400)])
    await history.readings.add([tick(0)])
    latest = await history.readings.latest()
    assert latest is not None
    assert latest.at == NOON


async def test_nodes_keep_apart(history: History) -> None:
    other = History(history.url, "gpu2:8000")
    await history.readings.add([tick(0, running=1.0)])
    await other.readings.add([tick(0, running=2.0)])
    mine, others = await history.readings.at(NOON), await history.readings.at(NOON, "gpu2:8000")
    assert (mine and mine.means["running"], others and others.means["running"]) == (1.0, 2.0)
    assert await history.readings.nodes() == ["gpu1:8000", "gpu2:8000"]
    await other.close()


def test_parts_weigh_as_many_samples_as_they_have() -> None:
    parts = [Reading(NOON, {"a": 1.0}, samples=1), Reading(NOON, {"a": 4.0}, samples=2)]
    assert merged(parts, NOON, 60).means == {"a": 3.0}


def test_a_signal_that_some_parts_did_not_know_is_the_mean_of_the_others() -> None:
    parts = [Reading(NOON, {"a": 1.0, "b": 0.0}), Reading(NOON, {"a": 3.0})]
    assert merged(parts, NOON, 60).means == {"a": 2.0, "b": 0.0}


def test_the_highest_outlives_two_mergers() -> None:
    minutes = [merged([Reading(NOON, {"a": n}), Reading(NOON, {"a": 2 * n})], NOON, 60) for n in (1.0, 5.0, 2.0)]
    hour = merged(minutes, NOON, 3600)
    assert (hour.high("a"), hour.samples) == (10.0, 6)


def test_what_was_the_same_all_the_time_is_kept_once() -> None:
    one = merged([Reading(NOON, {"a": 2.0})] * 3, NOON, 60)
    assert (one.highs, one.high("a")) == ({}, 2.0)


def test_a_knob_is_the_value_that_was_in_force_last_and_no_mean() -> None:
    parts = [Reading(NOON, {"knob:max_num_seqs": value}) for value in (8.0, None, 16.0)]
    assert merged(parts, NOON, 60).knobs == {"max_num_seqs": 16.0}
    assert merged(parts[:2], NOON, 60).knobs == {"max_num_seqs": None}


def test_a_stretch_begins_at_whole_minutes_and_hours_before_1970_too() -> None:
    at = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    assert begin(at, 60) == datetime(1969, 12, 31, 23, 59, tzinfo=UTC)
    assert begin(NOON + timedelta(minutes=59, seconds=59), 3600) == NOON


async def test_what_lies_whole_in_a_span_comes_in_few_rows_and_is_exact_to_the_second(history: History) -> None:
    ticks = [tick(n, running=float(n % 977)) for n in range(3 * HOUR_S)]
    minutes = [merged(ticks[n : n + MINUTE_S], ticks[n].at, MINUTE_S) for n in range(0, len(ticks), MINUTE_S)]
    hours = [merged(ticks[n : n + HOUR_S], ticks[n].at, HOUR_S) for n in range(0, len(ticks), HOUR_S)]
    await history.readings.add([*ticks, *minutes[:-3], *hours[:-1]])
    for first, last in ((0, 10_800), (7, 10_777), (3595, 3665), (61, 59), (7199, 7260), (10_650, 10_799), (5, 9)):
        found = await history.readings.whole(NOON + timedelta(seconds=first), NOON + timedelta(seconds=last))
        assert sum(one.samples for one in found) == max(0, last - first)
        assert [one.at for one in found] == sorted(one.at for one in found)
        assert len(found) <= 2 * MINUTE_S + 2 * 60 + 3 + 3 * MINUTE_S
        if found:
            whole = merged(found, NOON, HOUR_S).means["running"]
            assert whole == pytest.approx(sum(n % 977 for n in range(first, last)) / (last - first), rel=1e-5)


async def test_where_single_readings_are_no_longer_kept_only_whole_minutes_are_told(history: History) -> None:
    await history.readings.add([stretch(NOON + timedelta(minutes=n), MINUTE_S) for n in range(10)])
    found = await history.readings.whole(NOON + timedelta(seconds=30), NOON + timedelta(seconds=330))
    assert [one.at.minute for one in found] == [1, 2, 3, 4]
