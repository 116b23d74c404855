"""What single requests' records say: goodput and imbalance."""

from __future__ import annotations

import random
import weakref
from dataclasses import fields
from typing import Any

import pytest

from controller.estimation import Estimator
from controller.estimation.requests import Imbalance
from domain.readings.engine import RequestRecord
from domain.readings.vllm import VllmReading
from domain.slo import Latency, Slo
from domain.view import View
from tests.snapshots import BEGAN, histogram, record, snapshot, stats

TTFT = Slo(Latency.TTFT, 95, 0.2)
ITL = Slo(Latency.ITL, 95, 0.02)
E2E = Slo(Latency.E2E, 95, 1.0)


def after(*ticks: tuple[RequestRecord, ...], slos: tuple[Slo, ...] = (TTFT, ITL, E2E), **changes: Any) -> View:
    """The view after one second for each bundle of records; nothing ends in the first."""
    estimator = Estimator(1.0)
    view = estimator.update(snapshot(0, engine=stats()), slos)
    for second, records in enumerate(ticks, start=1):
        view = estimator.update(snapshot(second, engine=stats(records=records), **changes), slos)
    return view


@pytest.mark.parametrize(
    ("changes", "good"),
    [
        ({}, 1),
        ({"ttft_s": 0.3}, 0),
        ({"tpot_s": 0.03}, 0),
        ({"e2e_s": 1.1}, 0),
        ({"ttft_s": 0.2, "tpot_s": 0.02, "e2e_s": 1.0}, 1),
        ({"tpot_s": None, "output_tokens": 1}, 1),
        ({"ttft_s": None}, 0),
        ({"reason": "error"}, 0),
        ({"reason": "abort", "ttft_s": 9.0}, None),
    ],
)
def test_a_request_is_good_when_it_keeps_every_bound(changes: dict[str, Any], good: float | None) -> None:
    assert after((record(1, **changes),)).goodput_ratio == good


def test_no_record_is_kept_once_it_is_counted() -> None:
    class Seen(RequestRecord):
        __slots__ = ("__weakref__",)

    estimator = Estimator(1.0)
    estimator.update(snapshot(0, engine=stats()), (E2E,))
    seen = Seen(*(getattr(record(1), field.name) for field in fields(RequestRecord)))
    kept = weakref.ref(seen)
    view = estimator.update(snapshot(1, engine=stats(records=(seen,))), (E2E,))
    del seen
    assert (view.goodput_ratio, kept()) == (1, None)


def test_a_clock_that_is_set_back_leaves_goodput_known() -> None:
    """Field case D4: the records carry the time of the day, an hour earlier from one tick to the next."""
    estimator = Estimator(1.0)
    estimator.update(snapshot(0, engine=stats()), (E2E,))
    for second in range(1, 4):
        records = (record(second - 3600.1), record(second - 3600.1, e2e_s=2.0))
        view = estimator.update(snapshot(second, slept_s=-3600, engine=stats(records=records)), (E2E,))
    assert view.goodput_ratio == 0.5


def test_goodput_is_not_the_product_of_shares() -> None:
    """The same request breaks both bounds: half are good, where the two histograms would suggest a quarter."""
    bad = record(1, ttft_s=0.3, tpot_s=0.03)
    assert after((record(1), bad)).goodput_ratio == 0.5


def test_queue_and_inference_time_are_judged_apart() -> None:
    waited = record(1, queue_s=0.35, e2e_s=0.4)
    assert after((waited,), slos=(Slo(Latency.QUEUE, 95, 0.1),)).goodput_ratio == 0
    assert after((waited,), slos=(Slo(Latency.INFERENCE, 95, 0.1),)).goodput_ratio == 1


def test_without_an_objective_there_is_no_goodput() -> None:
    assert after((record(1),), slos=()).goodput_ratio is None


def test_without_records_one_objective_is_read_from_its_histogram_and_two_are_unknown() -> None:
    def view(*slos: Slo) -> View:
        estimator = Estimator(1.0)
        for second in range(3):
            counted = {latency: histogram(8 * second, 2 * second, bound_s=0.02) for latency in Latency}
            view = estimator.update(snapshot(second, VllmReading(latencies=counted)), slos)
        return view

    assert view(ITL).goodput_ratio == pytest.approx(0.8)
    assert view(ITL, TTFT).goodput_ratio is None


def test_what_ended_before_a_change_is_not_counted_after_it() -> None:
    estimator = Estimator(1.0)
    estimator.update(snapshot(0, engine=stats()), (E2E,))
    estimator.update(snapshot(1, engine=stats(records=(record(0.5, e2e_s=9),))), (E2E,))
    estimator.restart_window()
    view = estimator.update(snapshot(2, engine=stats(records=(record(1.5, e2e_s=9),))), (E2E,))
    assert view.goodput_ratio is None
    view = estimator.update(snapshot(3, engine=stats(records=(record(1.9, e2e_s=9), record(2.5)))), (E2E,))
    assert view.goodput_ratio == 1


def test_records_from_long_before_the_start_are_no_goodput_of_now() -> None:
    estimator = Estimator(1.0)
    old = tuple(record(-50, e2e_s=9) for _ in range(30))
    for second in range(3):
        view = estimator.update(snapshot(second, engine=stats(records=old)), (E2E,))
    assert view.goodput_ratio is None


def test_a_busy_engine_is_judged_by_its_last_seconds_and_a_quiet_one_by_a_minute() -> None:
    busy = [tuple(record(s, e2e_s=9 if s < 30 else 0.4) for _ in range(200)) for s in range(1, 41)]
    quiet = [tuple(record(s, e2e_s=9 if s < 30 else 0.4) for _ in range(1)) for s in range(1, 41)]
    assert after(*busy).goodput_ratio == 1
    assert after(*quiet).goodput_ratio == pytest.approx(11 / 40)


def test_a_new_objective_is_judged_by_new_requests() -> None:
    estimator = Estimator(1.0)
    estimator.update(snapshot(0, engine=stats()), (E2E,))
    estimator.update(snapshot(1, engine=stats(records=(record(0.5),))), (E2E,))
    assert estimator.update(snapshot(2, engine=stats()), (ITL,)).goodput_ratio is None


def test_equal_requests_that_take_three_times_as_long_show() -> None:
    """The seeds' "same length, three times the time": the classes beside it are even."""
    uneven = tuple(record(1, prompt_tokens=300, e2e_s=0.5 if i % 2 else 1.5) for i in range(40))
    even = tuple(record(1, prompt_tokens=3000, e2e_s=5.0) for i in range(40))
    assert after(uneven + even).latency_imbalance == pytest.approx(3, rel=0.05)


def test_different_lengths_are_no_imbalance() -> None:
    short = tuple(record(1, prompt_tokens=100, e2e_s=0.2) for _ in range(40))
    long = tuple(record(1, prompt_tokens=900, e2e_s=2.0) for _ in range(40))
    talkative = tuple(record(1, output_tokens=300, e2e_s=6.0) for _ in range(40))
    assert after(short + long + talkative).latency_imbalance == 1


def test_a_class_of_few_says_nothing() -> None:
    few = tuple(record(1, e2e_s=0.1 * 3**i) for i in range(19))
    assert after(few).latency_imbalance is None
    assert after((*few, record(1))).latency_imbalance is not None


def test_failures_and_clients_that_left_are_no_imbalance() -> None:
    served = tuple(record(1) for _ in range(40))
    gone = tuple(record(1, e2e_s=0.001, reason=reason) for reason in ("abort", "error") for _ in range(40))
    assert after(served + gone).latency_imbalance == 1


def test_imbalance_is_that_of_the_last_five_minutes() -> None:
    imbalance = Imbalance()

    def take(second: int, *latencies_s: float) -> float | None:
        records = [record(second, e2e_s=e2e_s) for e2e_s in latencies_s for _ in range(15)]
        imbalance.take(second, BEGAN.timestamp() + second, records)
        return imbalance.worst(second)

    assert take(0, 0.1, 1.0) == pytest.approx(10, rel=0.05)
    assert take(290, 1.0, 1.0) == pytest.approx(10, rel=0.05)
    assert take(340, 1.0) == 1
    assert take(700) is None


def test_the_imbalance_of_many_is_right_within_its_step() -> None:
    drawn = random.Random(4)
    seconds = [drawn.lognormvariate(0, 0.5) for _ in range(3000)]
    imbalance = Imbalance()
    imbalance.take(0, BEGAN.timestamp(), [record(0, e2e_s=s) for s in seconds])
    ordered = sorted(seconds)
    assert imbalance.worst(0) == pytest.approx(ordered[2699] / ordered[299], rel=0.045)
