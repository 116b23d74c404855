"""What the rest bench makes of what it timed, and the two processes that ask and listen. No vLLM."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from bench.footprint.process import Sample
from bench.rest.asking import arrivals
from bench.rest.child import Child, ChildError
from bench.rest.summary import (
    Looks,
    Tick,
    by_minute,
    growth_mb_per_min,
    lateness_ms,
    of_answers,
    of_process,
    of_ticks,
    rank,
)
from controller.operations.events import EventKind
from tests.api_rig import serving


def _ticks(*late_s: float, start_s: float = 1_700_000_000.25) -> list[Tick]:
    return [Tick(number, start_s + number + late, 200) for number, late in enumerate(late_s)]


def test_a_tick_is_as_late_as_it_began_behind_the_grid_that_the_earliest_lies_on() -> None:
    assert lateness_ms(_ticks(0.030, 0.010, 0.050), 1.0) == pytest.approx({0: 20.0, 1: 0.0, 2: 40.0}, abs=0.01)


def test_the_grid_is_found_across_the_full_second() -> None:
    assert lateness_ms(_ticks(0.0, 0.04, 0.01, start_s=0.98), 1.0) == pytest.approx(
        {0: 0.0, 1: 40.0, 2: 10.0}, abs=0.01
    )


def test_ticks_before_the_first_request_and_those_of_the_warm_up_are_not_of_the_measurement() -> None:
    ticks = _ticks(0.0, 0.002, 0.9, 0.01, 0.03)
    del ticks[2]
    found = of_ticks(ticks, 1.0, tuple(ticks[0].at_s + s for s in (1.5, 2.5, 10.0)))  # type: ignore[arg-type]
    assert (found["tick_jitter_ms"], found["quiet_tick_jitter_ms"]) == pytest.approx((30.0, 2.0), abs=0.01)
    assert (found["ticks"], found["ticks_missed"]) == (2, 0)


def test_a_tick_that_the_schedule_had_and_that_did_not_come_is_counted() -> None:
    ticks = _ticks(0.0, 0.0, 0.0, 0.0)
    del ticks[1:3]
    assert of_ticks(ticks, 1.0, (0.0, 0.0, math.inf))["ticks_missed"] == 2


def test_without_ticks_their_jitter_is_not_known() -> None:
    found = of_ticks([], 1.0, (0.0, 0.0, 1.0))
    assert (found["tick_jitter_ms"], found["ticks"]) == (None, 0)


def test_an_answer_takes_from_the_moment_at_which_its_request_was_due() -> None:
    found = of_answers([(0.1, 2.0)] * 98 + [(40.0, 45.0)] * 2, {"HTTP 429": 3}, 10.0)
    assert (found["p50_ms"], found["p99_ms"], found["worst_ms"]) == (2.0, 45.0, 45.0)
    assert (found["sent_late_p99_ms"], found["p99_from_sent_ms"]) == (40.0, 5.0)
    assert (found["requests"], found["errors"], found["rps"]) == (103, 3, 10.0)


def test_a_quantile_without_values_is_not_known() -> None:
    assert rank([], 0.99) is None
    assert rank([3.0, 1.0, 2.0], 0.99) == 3.0


def _looks(seconds: int, mb_per_min: float) -> list[Sample]:
    return [Sample(float(s), 0.25 * s, 100.0 + mb_per_min * s / 60) for s in range(seconds)]


def test_growth_is_between_the_medians_of_the_first_and_of_the_last_looks() -> None:
    looks = _looks(60, 3.0)
    looks[1] = replace(looks[1], rss_mb=0.0)
    assert growth_mb_per_min(looks) == pytest.approx(3.0, abs=0.06)


def test_what_requests_add_is_over_the_mean_of_the_time_before_and_after_them() -> None:
    found = of_process(Looks(_looks(60, 0.75), _looks(60, 1.0), _looks(60, 0.25)))
    assert found["more_rss_growth_mb_per_min"] == 0.5
    assert found["quiet_rss_growth_mb_per_min"] == [0.75, 0.25]
    assert (found["rss_mb"], found["cpu_share"]) == (101.0, 0.25)


def test_of_a_short_stretch_no_growth_is_told() -> None:
    assert growth_mb_per_min(_looks(29, 1.0)) is None
    found = of_process(Looks(_looks(15, 1.0), _looks(60, 1.0), _looks(60, 1.0)))
    assert found["more_rss_growth_mb_per_min"] is None


def test_memory_of_a_minute_is_the_median_of_its_looks() -> None:
    assert by_minute(_looks(121, 2.0)) == [100.98, 102.98, 104.0]


def test_requests_come_at_random_and_as_many_as_asked() -> None:
    at = list(arrivals(100.0, 500.0, 110.0, random.Random(1)))
    gaps = [after - before for before, after in pairwise(at)]
    assert at == sorted(at)
    assert 100.0 < at[0] < at[-1] < 110.0
    assert len(at) == pytest.approx(5000, abs=4 * math.sqrt(5000))
    # Of an exponential distribution the deviation is the mean; evenly spaced it would be 0.
    mean = sum(gaps) / len(gaps)
    assert math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) == pytest.approx(mean, rel=0.1)


async def test_the_asking_process_times_each_answer_of_the_daemon(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, Child("bench.rest.asking", (f"{api.url}/api/v1/status", 50, 0.2, 1)) as asking:
        assert await asking.line(60) == "asking"
        found = await asking.result(30)
    assert 20 < len(found["answers"]) < 90
    assert all(0 <= late_ms < took_ms for late_ms, took_ms in found["answers"])
    assert found["causes"] == {}
    assert found["ticks"] == [3]


async def test_what_is_refused_is_an_error_with_its_cause(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, requests_per_s=1) as api,
        Child("bench.rest.asking", (f"{api.url}/api/v1/status", 100, 0.5, 0.5)) as asking,
    ):
        await asking.line(60)
        found = await asking.result(30)
    assert found["causes"]["HTTP 429"] > 10


async def test_the_listening_process_counts_what_each_stream_gets(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, Child("bench.rest.listening", (f"{api.url}/api/v1/events", 7)) as listening:
        assert await listening.line(60) == "open"
        api.operations.events.publish(EventKind.MODE, {"in_force": "auto"})
        await api.rig.loop.tick()
        found = await listening.result(30, stop=True)
    assert (found["open"], found["events"] >= 14) == (7, True)
    assert [(number, received) for number, _, received in found["ticks"]] == [(4, 7)]


async def test_a_measuring_process_that_fails_says_why() -> None:
    async with Child("bench.rest.listening", ("http://127.0.0.1:9/api/v1/events", 1)) as listening:
        with pytest.raises(ChildError, match=r"bench\.rest\.listening ended with 1: .*"):
            await listening.result(60, stop=True)
