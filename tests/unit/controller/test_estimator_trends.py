"""Slow trends: swings, slope, and what Prometheus remembers of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from controller.estimation import BACKFILLED, Estimator
from domain.histogram import Histogram
from domain.readings.gpu import GpuReading
from domain.readings.vllm import VllmReading
from domain.slo import Latency
from domain.view import SIGNALS, View
from tests.snapshots import gpu, gpus, snapshot


def run(estimator: Estimator, seconds: range, make: Callable[[int], dict[str, Any]], restart: bool = False) -> View:
    """One tick a second; `restart`: a knob moves every tick."""
    for second in seconds:
        view = estimator.update(snapshot(second, **make(second)), ())
        if restart:
            estimator.restart_window()
    return view


def finishing(rates: Callable[[int], float]) -> Callable[[int], dict[str, Any]]:
    """Requests finished at `rates(second)`, each of a tenth of a second."""
    totals = [0.0]
    for second in range(1000):
        totals.append(totals[-1] + rates(second))

    return lambda second: {"vllm": VllmReading(requests_finished=totals[second])}


def test_the_swing_is_highest_less_lowest_over_the_mean() -> None:
    view = run(Estimator(1.0), range(121), finishing(lambda s: 40 if s < 60 else 60))
    assert view.requests_per_s_swing_ratio == pytest.approx(0.4)


def test_moving_knobs_do_not_hide_a_swing() -> None:
    view = run(Estimator(1.0), range(121), finishing(lambda s: 40 if s < 60 else 60), restart=True)
    assert view.requests_per_s_swing_ratio == pytest.approx(0.4)


def test_a_swing_is_unknown_in_the_first_minute_and_without_traffic() -> None:
    assert run(Estimator(1.0), range(60), finishing(lambda s: 40)).requests_per_s_swing_ratio is None
    assert run(Estimator(1.0), range(121), finishing(lambda s: 0)).requests_per_s_swing_ratio is None


def test_a_swing_is_forgotten_after_five_minutes() -> None:
    steady = finishing(lambda s: 90 if s < 60 else 60)
    assert run(Estimator(1.0), range(300), steady).requests_per_s_swing_ratio == pytest.approx(0.5, abs=0.05)
    assert run(Estimator(1.0), range(400), steady).requests_per_s_swing_ratio == pytest.approx(0)


def test_a_pause_of_the_scrapes_is_no_swing() -> None:
    estimator = Estimator(1.0)
    steady = finishing(lambda s: 50)
    run(estimator, range(65), steady)
    run(estimator, range(65, 72), lambda s: {})
    assert run(estimator, range(72, 130), steady).requests_per_s_swing_ratio == pytest.approx(0)


BOUNDS = (0.5, 1.0, 2.0, math.inf)


def slowing(counts: Callable[[int], tuple[float, ...]]) -> Callable[[int], dict[str, Any]]:
    """`counts(second)`: requests of that second in each bucket, not cumulative."""
    totals: list[tuple[float, ...]] = [(0.0,) * 4]
    for second in range(400):
        totals.append(tuple(a + b for a, b in zip(totals[-1], counts(second), strict=True)))

    def make(second: int) -> dict[str, Any]:
        one, two, three, four = totals[second]
        cumulative = (one, one + two, one + two + three, one + two + three + four)
        return {"vllm": VllmReading(latencies={Latency.E2E: Histogram(BOUNDS, cumulative, 0.0)})}

    return make


def test_the_slope_compares_this_minute_with_the_one_before() -> None:
    make = slowing(lambda s: (0, 10, 0, 0) if s < 60 else (0, 0, 10, 0))
    view = run(Estimator(1.0), range(121), make, restart=True)
    assert view.latency_slope_ratio == pytest.approx(1.99 / 0.995 - 1)


def test_the_slope_is_unknown_before_two_minutes_and_with_few_requests() -> None:
    assert run(Estimator(1.0), range(110), slowing(lambda s: (0, 10, 0, 0))).latency_slope_ratio is None
    assert run(Estimator(1.0), range(130), slowing(lambda s: (0, 1, 0, 0))).latency_slope_ratio is None
    assert run(Estimator(1.0), range(130), slowing(lambda s: (0, 2, 0, 0))).latency_slope_ratio == pytest.approx(0)


def test_from_a_p99_past_the_last_bucket_no_rise_can_be_told() -> None:
    falls = slowing(lambda s: (0, 0, 0, 10) if s < 60 else (0, 10, 0, 0))
    rises = slowing(lambda s: (0, 10, 0, 0) if s < 60 else (0, 0, 0, 10))
    assert run(Estimator(1.0), range(121), falls).latency_slope_ratio is None
    assert run(Estimator(1.0), range(121), rises).latency_slope_ratio == pytest.approx(2.0 / 0.995 - 1)  # at least


def card(uuid: str, used: float) -> GpuReading:
    return gpu(uuid, bar1_total_bytes=1000, bar1_used_bytes=int(used))


def test_a_sawtooth_of_bar1_shows_as_its_height() -> None:
    view = run(Estimator(1.0), range(100), lambda s: {"gpus": gpus(card("a", 100 + 30 * (s % 7)))}, restart=True)
    assert view.bar1_swing_ratio == pytest.approx(0.18)
    assert view.bar1_usage_ratio == pytest.approx(0.1 + 0.03 * (99 % 7))


def test_bar1_of_different_cards_is_never_mixed() -> None:
    """The fuller card is lost and comes back: nothing swung."""

    def make(second: int) -> dict[str, Any]:
        both = (card("a", 100), card("b", 900))
        return {"gpus": gpus(*(both[:1] if 80 <= second < 90 else both))}

    assert run(Estimator(1.0), range(100), make).bar1_swing_ratio == 0


def test_a_card_that_is_away_for_a_tick_keeps_its_past_and_shows_none_meanwhile() -> None:
    """Field case N5: history is kept by UUID."""
    estimator = Estimator(1.0)
    run(estimator, range(100), lambda s: {"gpus": gpus(card("a", 100 if s < 50 else 600))})
    assert estimator.update(snapshot(100, gpus=gpus()), ()).bar1_swing_ratio is None
    assert estimator.update(snapshot(101, gpus=gpus(card("a", 600))), ()).bar1_swing_ratio == pytest.approx(0.5)


def test_without_bar1_its_swing_is_unknown() -> None:
    view = run(Estimator(1.0), range(100), lambda s: {"gpus": gpus(gpu())})
    assert (view.bar1_swing_ratio, view.bar1_usage_ratio) == (None, None)


def test_after_a_restart_of_the_daemon_the_trends_begin_with_what_prometheus_remembers() -> None:
    estimator = Estimator(1.0)
    estimator.backfill(
        {
            "requests_per_s": [(15.0 * i, 50.0 if i < 5 else 70.0) for i in range(1, 20)],
            "latency_slope_ratio": [(45.0, 0.1), (15.0, 0.3)],
            "bar1_usage_ratio": [(15.0 * i, 0.4 if i == 3 else 0.1) for i in range(1, 20)],
            "running": [(15.0, 3.0)],
        }
    )

    def make(second: int) -> dict[str, Any]:
        return finishing(lambda s: 50)(second) | {"gpus": gpus(card("a", 100))}

    view = run(estimator, range(3), make)
    assert view.requests_per_s_swing_ratio == pytest.approx(20 / (4 * 50 + 15 * 70) * 19)
    assert view.latency_slope_ratio == 0.3
    assert view.bar1_swing_ratio == pytest.approx(0.3)
    assert view.running is None


def test_a_remembered_slope_is_good_for_a_minute() -> None:
    estimator = Estimator(1.0)
    estimator.backfill({"latency_slope_ratio": [(15.0, 0.3)]})
    make = slowing(lambda s: (0, 10, 0, 0))
    assert run(estimator, range(46), make).latency_slope_ratio == 0.3
    assert run(estimator, range(46, 47), make).latency_slope_ratio is None


def test_what_prometheus_remembers_does_not_replace_what_was_seen() -> None:
    estimator = Estimator(1.0)
    steady = finishing(lambda s: 50)
    run(estimator, range(100), steady)
    estimator.backfill({"requests_per_s": [(5.0, 900.0), (250.0, 60.0)]})
    assert run(estimator, range(100, 102), steady).requests_per_s_swing_ratio == pytest.approx(10 / 51, rel=0.02)


def test_bar1_of_several_cards_takes_nothing_from_the_fullest_cards_past() -> None:
    estimator = Estimator(1.0)
    estimator.backfill({"bar1_usage_ratio": [(100.0, 0.9), (200.0, 0.1)]})
    view = run(estimator, range(3), lambda s: {"gpus": gpus(card("a", 100), card("b", 200))})
    assert view.bar1_swing_ratio is None


def test_only_signals_are_asked_of_prometheus() -> None:
    assert set(BACKFILLED) <= set(SIGNALS)
