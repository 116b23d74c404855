"""Readings and the ledger: one law for every database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from domain.stretch import Reading
from store.history import History
from tests.contract.store.samples import AT, ENGINE, entry
from tests.views import runtime

START = AT.replace(second=0, microsecond=0)
ALWAYS = (START - timedelta(days=1), START + timedelta(days=1))


def reading(second: float, running: float) -> Reading:
    at = START + timedelta(seconds=second)
    return Reading(at, {"running": running, "knob:max_num_seqs": 64.0, "knob:max_num_queued_reqs": None}, node="gpu1")


async def test_readings_come_back_in_the_order_of_time(history: History) -> None:
    run = await history.runs.start(AT, ENGINE, runtime())
    rows = [replace(reading(second, float(second)), run_id=run) for second in (0, 1, 2)]
    await history.readings.add([rows[0], rows[2]])
    await history.readings.add([rows[1]])
    assert await history.readings.span(*ALWAYS) == rows
    assert await history.readings.span(rows[1].at, rows[2].at) == [rows[1]]


async def test_a_reading_that_is_written_twice_is_one_with_the_last_figures(history: History) -> None:
    await history.readings.add([reading(0, 1.0)])
    await history.readings.add([reading(0, 2.0)])
    assert await history.readings.span(*ALWAYS) == [reading(0, 2.0)]


async def test_a_minute_stands_where_its_seconds_are_gone(history: History) -> None:
    minute = replace(reading(0, 5.0), resolution_s=60, samples=60, highs={"running": 9.0})
    await history.readings.add([minute, reading(60, 1.0)])
    assert await history.readings.span(*ALWAYS) == [minute, reading(60, 1.0)]


async def test_the_state_at_a_moment_is_the_last_reading_before_it(history: History) -> None:
    await history.readings.add([reading(0, 1.0), reading(10, 2.0)])
    assert await history.readings.at(START + timedelta(seconds=9.9)) == reading(0, 1.0)
    assert await history.readings.at(START + timedelta(seconds=10)) == reading(10, 2.0)
    assert await history.readings.at(START - timedelta(seconds=1)) is None


async def test_the_latest_reading_is_the_one_written_last(history: History) -> None:
    """A wrong clock wrote the one before it."""
    await history.readings.add([reading(3600, 1.0)])
    await history.readings.add([reading(0, 2.0)])
    assert await history.readings.latest() == reading(0, 2.0)


async def test_an_entry_comes_back_with_what_is_not_known(history: History) -> None:
    written = entry(note="the counter began anew")
    await history.ledger.add(None, [written])
    assert await history.ledger.entries(*ALWAYS) == [replace(written, node="gpu1")]
    assert (await history.ledger.entries(*ALWAYS))[0].response_bytes is None


async def test_an_entry_that_is_written_twice_has_the_last_figures(history: History) -> None:
    await history.ledger.add(None, [entry(energy_j=1.0)])
    await history.ledger.add(None, [entry(energy_j=2.0)])
    assert [one.energy_j for one in await history.ledger.entries(*ALWAYS)] == [2.0]


async def test_sums_are_of_one_setting_and_of_what_is_known(history: History) -> None:
    other = {"max_num_seqs": 32.0, "max_num_queued_reqs": None}
    await history.ledger.add(None, [entry(0), entry(1), entry(2, energy_j=None), entry(3, setting=other)])
    sums = {(one.setting["max_num_seqs"], one.energy_j): one.requests for one in await history.ledger.sums(*ALWAYS)}
    assert sums == {(64.0, 72000.0): 20.0, (64.0, None): 10.0, (32.0, 36000.0): 10.0}
    times = await history.ledger.time_by_setting(*ALWAYS)
    assert [(setting["max_num_seqs"], seconds) for setting, seconds in times] == [(64.0, 180.0), (32.0, 60.0)]


async def test_the_longest_settings_are_told_apart_by_the_knobs_that_are_asked_for(history: History) -> None:
    small, large = {"max_num_seqs": 8.0}, {"max_num_seqs": 64.0}
    settings = [{**small, "length_grouping": value} for value in (0.0, 1.0, 1.0)] + [{**large, "length_grouping": 1.0}]
    await history.ledger.add(None, [entry(minute, setting=setting) for minute, setting in enumerate(settings)])

    async def longest(most: int, *knobs: str) -> list[tuple[object, float]]:
        found = await history.ledger.longest(*ALWAYS, most, knobs=knobs)
        return [(setting, sum(one.seconds for one in sums)) for setting, sums in found]

    assert await longest(1) == [({**small, "length_grouping": 1.0}, 120.0)]
    assert await longest(3, "max_num_seqs") == [(small, 180.0), (large, 60.0)]
    assert await longest(1, "length_grouping") == [({"length_grouping": 1.0}, 180.0)]
    assert await longest(1, "hot_ttl_s") == [({}, 240.0)]


async def test_rolling_up_keeps_every_total(history: History) -> None:
    await history.ledger.add(None, [entry(minute) for minute in range(60)])
    before = await history.ledger.sums(*ALWAYS)
    assert await history.ledger.roll_up(START + timedelta(hours=2)) == 60
    assert [one.resolution_s for one in await history.ledger.entries(*ALWAYS)] == [3600]
    assert [replace(one, resolution_s=60) for one in await history.ledger.sums(*ALWAYS)] == before
    assert await history.ledger.roll_up(START + timedelta(hours=2)) == 0
