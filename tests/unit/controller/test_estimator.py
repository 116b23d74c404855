"""Snapshots to View: rates, windows, restarts."""

import math
from datetime import UTC, datetime
from typing import Any

from controller.estimator import Estimator
from domain.histogram import Histogram
from domain.slo import Latency
from domain.snapshot import GpuReading, Snapshot, VllmReading


def snapshot(now_s: float, vllm: VllmReading | None, **changes: Any) -> Snapshot:
    return Snapshot(now_s, datetime(2026, 1, 1, tzinfo=UTC), vllm, None, changes.pop("gpus", None), **changes)


def reading(finished: float, itl: float = 0.0) -> VllmReading:
    histogram = Histogram((0.05, math.inf), (itl, itl), itl * 0.01)
    return VllmReading(
        kv_cache_usage_ratio=0.3, requests_finished=finished, preemptions=0, latencies={Latency.ITL: histogram}
    )


def test_one_snapshot_gives_gauges_and_no_rate() -> None:
    view = Estimator(1.0).update(snapshot(0.0, reading(100)), ())
    assert view.kv_cache_usage_ratio == 0.3
    assert view.requests_per_s is None
    assert view.samples(Latency.ITL) == 0


def test_a_rate_is_the_difference_over_the_window() -> None:
    estimator = Estimator(1.0)
    for second in range(6):
        view = estimator.update(snapshot(float(second), reading(100 + 20 * second)), ())
    assert view.requests_per_s == 20
    assert view.preemptions_per_s == 0
    assert view.window_s == 5


def test_a_counter_that_went_down_is_a_restart_and_the_rate_unknown() -> None:
    """Field case M7: 50000, 50600, 300, 900 every 10 s is unknown, 60, unknown, 60 per second."""
    estimator = Estimator(10.0)
    rates = [
        estimator.update(snapshot(10.0 * i, VllmReading(prompt_tokens=v, requests_finished=v)), ()).requests_per_s
        for i, v in enumerate((50000, 50600, 300, 900))
    ]
    assert rates == [None, 60.0, None, 60.0]


def test_latencies_rest_on_the_shortest_window_with_enough_samples() -> None:
    estimator = Estimator(1.0)
    for second in range(21):
        view = estimator.update(snapshot(float(second), reading(0, itl=40.0 * second)), ())
    assert view.samples(Latency.ITL) == 800  # 20 s of 40: 10 s hold only 400


def test_after_a_change_no_older_sample_counts() -> None:
    estimator = Estimator(1.0)
    for second in range(10):
        estimator.update(snapshot(float(second), reading(0, itl=1000.0 * second)), ())
    estimator.restart_window()
    assert estimator.update(snapshot(10.0, reading(0, itl=10_000)), ()).samples(Latency.ITL) == 0
    assert estimator.update(snapshot(11.0, reading(0, itl=10_300)), ()).samples(Latency.ITL) == 300


def test_a_reading_older_than_three_ticks_is_unknown() -> None:
    estimator = Estimator(1.0)
    estimator.update(snapshot(0.0, reading(1)), ())
    assert estimator.update(snapshot(2.0, None), ()).kv_cache_usage_ratio == 0.3
    assert estimator.update(snapshot(3.5, None), ()).kv_cache_usage_ratio is None


def test_gpu_utilization_is_the_busiest_known_and_unknown_when_none_says() -> None:
    gpus = (GpuReading(0, "a", "A100", 0.4), GpuReading(1, "b", "A100", None))
    assert Estimator(1.0).update(snapshot(0.0, None, gpus=gpus), ()).gpu_utilization_ratio == 0.4
    assert Estimator(1.0).update(snapshot(0.0, None), ()).gpu_utilization_ratio is None
