"""Snapshots to View: windows, rates, restarts, freshness."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.estimation import Estimator
from domain.histogram import Histogram
from domain.readings.engine import CoreStats
from domain.readings.prometheus import LongWindows
from domain.readings.vllm import VllmReading
from domain.slo import Latency, Slo
from domain.snapshot import Source
from domain.view import SIGNALS, View
from tests.snapshots import gpu, gpus, histogram, memory, record, snapshot, stats, step_sums
from tests.views import runtime


def reading(finished: float, itl: float = 0.0, **changes: Any) -> VllmReading:
    values: dict[str, Any] = {
        "kv_cache_usage_ratio": 0.3,
        "requests_finished": finished,
        "preemptions": 0,
        "latencies": {Latency.ITL: histogram(itl)},
    }
    return VllmReading(**(values | changes))


def after(estimator: Estimator, *readings: VllmReading | None, tick_s: float = 1.0) -> View:
    """The view after these readings, one a tick from 0 on."""
    for i, one in enumerate(readings):
        view = estimator.update(snapshot(tick_s * i, one), ())
    return view


def test_one_snapshot_gives_gauges_and_no_rate() -> None:
    view = Estimator(1.0).update(snapshot(0.0, reading(100)), ())
    assert view.kv_cache_usage_ratio == 0.3
    assert view.requests_per_s is None
    assert view.samples(Latency.ITL) == 0


def test_a_rate_is_the_difference_over_the_window() -> None:
    view = after(Estimator(1.0), *(reading(100 + 20 * second) for second in range(6)))
    assert view.requests_per_s == 20
    assert view.preemptions_per_s == 0
    assert view.window_s == 5


def test_a_rate_looks_back_ten_seconds_and_no_further() -> None:
    view = after(Estimator(1.0), *(reading(0 if second < 10 else 50 * (second - 10)) for second in range(21)))
    assert (view.requests_per_s, view.window_s) == (50, 10)


@pytest.mark.parametrize("tick_s", [0.2, 10.1, 60.0])
def test_at_any_pace_there_is_a_rate_after_two_ticks(tick_s: float) -> None:
    assert after(Estimator(tick_s), reading(0), reading(30), tick_s=tick_s).requests_per_s == pytest.approx(30 / tick_s)


def test_latencies_rest_on_the_shortest_window_with_enough_samples() -> None:
    view = after(Estimator(1.0), *(reading(0, itl=40.0 * second) for second in range(21)))
    assert view.samples(Latency.ITL) == 800  # 20 s of 40: 10 s hold only 400


def test_after_a_change_no_older_sample_counts() -> None:
    estimator = Estimator(1.0)
    after(estimator, *(reading(0, itl=1000.0 * second) for second in range(10)))
    estimator.restart_window()
    assert estimator.update(snapshot(10.0, reading(0, itl=10_000)), ()).samples(Latency.ITL) == 0
    assert estimator.update(snapshot(11.0, reading(0, itl=10_300)), ()).samples(Latency.ITL) == 300


def test_a_change_leaves_what_is_now_as_it_is() -> None:
    estimator = Estimator(1.0)
    after(estimator, reading(1))
    estimator.restart_window()
    assert estimator.update(snapshot(1.0), ()).kv_cache_usage_ratio == 0.3


def test_a_reading_older_than_three_ticks_is_unknown() -> None:
    estimator = Estimator(1.0)
    after(estimator, reading(1))
    assert estimator.update(snapshot(2.0), ()).kv_cache_usage_ratio == 0.3
    assert estimator.update(snapshot(3.5), ()).kv_cache_usage_ratio is None


def test_readings_on_both_sides_of_a_gap_are_not_compared() -> None:
    estimator = Estimator(1.0)
    after(estimator, *(reading(10 * second, itl=10.0 * second) for second in range(5)))
    back = estimator.update(snapshot(8.5, reading(80, itl=80)), ())
    assert (back.requests_per_s, back.samples(Latency.ITL)) == (None, 0)
    assert estimator.update(snapshot(9.5, reading(90, itl=90)), ()).requests_per_s == 10


def test_a_tick_without_a_reading_does_not_break_a_window() -> None:
    estimator = Estimator(1.0)
    after(estimator, reading(0), reading(10), None, None)
    assert estimator.update(snapshot(4.0, reading(40)), ()).requests_per_s == 10


def everything(now_s: float, boot_id: str = "boot-a") -> Any:
    """A snapshot in which every source says all it can."""
    t = 10.0 * now_s + 1
    e2e = Histogram((1.0, 2.0, float("inf")), (40 * t, 50 * t, 50 * t), 30 * t)
    vllm = VllmReading(
        running=4,
        waiting=3,
        deferred=1,
        kv_cache_usage_ratio=0.5,
        asleep=False,
        preemptions=t,
        requests_finished=2 * t,
        requests_failed=t / 5,
        requests_rejected=t,
        prompt_tokens=t,
        generation_tokens=t,
        prefix_cache_queries=t,
        prefix_cache_hits=t / 2,
        response_bytes=t,
        latencies=dict.fromkeys(Latency, e2e),
        prompt_lengths=e2e,
        output_lengths=e2e,
    )
    core = replace(
        stats().cores[0],
        boot_id=boot_id,
        steps=step_sums(n=t, tokens=t, budget_tokens=4 * t, samples=t, running=3 * t),
        hot_requests=int(t),
        cold_requests=int(3 * t),
        cache_prompt_tokens=int(4 * t),
        cache_hit_tokens=int(t),
        evictions=int(t),
        reallocations=int(2 * t),
        kv_fragmentation_ratio=0.05,
        kv_pool_bytes=1 << 30,
        oldest_waiting_s=0.2,
        real_tokens=int(3 * t),
        padded_tokens=int(4 * t),
        allocator_reserved_bytes=100,
        allocator_inactive_split_bytes=7,
        held=1,
        regroupings=int(t),
        hot_blocks=1,
        cold_blocks=3,
    )
    device = gpu(
        utilization_ratio=0.9,
        sm_activity_ratio=0.5,
        memory=memory(60 << 30),
        bar1_total_bytes=1024,
        bar1_used_bytes=128 + int(now_s) % 20,
        temperature_c=60.0,
        power_w=300.0,
        energy_j=300 * now_s,
    )
    records = tuple(record(now_s) for _ in range(5))
    return snapshot(
        now_s,
        vllm,
        engine=stats(core, records=records),
        gpus=gpus(device),
        prometheus=LongWindows(1.0, 2.0, 3.0, 1.1, 1.2),
        runtime=runtime(),
    )


SLOS = (Slo(Latency.E2E, 95, 2.0), Slo(Latency.ITL, 95, 0.05))


def test_every_signal_is_known_when_every_source_speaks() -> None:
    estimator = Estimator(1.0)
    for second in range(131):
        view = estimator.update(everything(second), SLOS)
    assert [name for name, value in view.signals() if value is None] == []


def test_no_signal_is_known_once_every_source_is_stale() -> None:
    estimator = Estimator(1.0)
    for second in range(131):
        estimator.update(everything(second), SLOS)
    view = estimator.update(snapshot(134.5), SLOS)
    assert [(name, value) for name, value in view.signals() if value is not None] == []
    assert (view.steps, view.latencies, view.window_s) == (None, {}, 0.0)
    assert view.ages_s == dict.fromkeys(Source, 4.5)


def test_an_empty_snapshot_makes_no_number_up() -> None:
    view = Estimator(1.0).update(snapshot(0.0), SLOS)
    assert {name: value for name, value in view.signals() if value is not None} == {}
    assert view.ages_s == {}


def test_each_signal_has_the_value_its_sources_give() -> None:
    estimator = Estimator(1.0)
    for second in range(131):
        view = estimator.update(everything(second), SLOS)
    expected = {
        "running": 4,
        "waiting": 3,
        "held": 1,
        "deferred": 1,
        "demand": 1,
        "oldest_waiting_s": 0.2,
        "batch_size_current": 3,
        "requests_per_s": 20,
        "prompt_tokens_per_s": 10,
        "failed_ratio": 0.1,
        "rejected_ratio": 1 / 3,
        "mean_prompt_tokens": 0.6,
        "queue_share_ratio": 1,
        "goodput_ratio": 1,
        "requests_per_s_swing_ratio": 0,
        "latency_slope_ratio": 0,
        "latency_imbalance": 1,
        "cache_hit_ratio": 0.25,
        "hot_requests_ratio": 0.25,
        "hot_blocks_ratio": 0.25,
        "evictions_per_s": 10,
        "reallocations_per_s": 20,
        "kv_fragmentation_ratio": 0.05,
        "allocator_fragmentation_ratio": 0.07,
        "memory_fragmentation_ratio": 0.07,
        "batch_utilization_ratio": 0.25,
        "padding_ratio": 0.25,
        "regroupings_per_s": 10,
        "stalled_s": 0,
        "sm_activity_ratio": 0.5,
        "gpu_memory_usage_ratio": 0.75,
        "effective_memory_ratio": 59.5 / 80,
        "bar1_swing_ratio": 19 / 1024,
        "gpu_power_w": 300,
        "gpu_energy_j": 300 * 130,
        "joules_per_token": 30,
        "requests_per_s_mean_1h": 1,
        "e2e_p99_1h_s": 3,
    }
    values = dict(view.signals())
    assert {name: values[name] for name in expected} == pytest.approx(expected)
    assert view.steps is not None
    assert (view.steps.n, view.steps.budget_tokens) == (10, 40)
    assert view.gpu_names == ("A100",)


def test_another_boot_id_starts_everything_of_the_engine_afresh() -> None:
    estimator = Estimator(1.0)
    for second in range(131):
        estimator.update(everything(second), SLOS)
    view = estimator.update(everything(131, boot_id="boot-b"), SLOS)
    assert (view.requests_per_s, view.steps, view.latency_slope_ratio, view.latencies) == (None, None, None, {})
    assert view.running == 4
    assert view.gpu_energy_j == 300 * 131
    assert view.requests_per_s_swing_ratio == pytest.approx(0)


def test_every_step_is_in_one_view_and_only_one_whatever_the_knobs_do() -> None:
    def counted(second: int, steps: int, **changes: Any) -> Any:
        core = replace(stats().cores[0], steps=step_sums(n=steps, tokens=7 * steps))
        return snapshot(second, engine=stats(core, replace(core, index=1)), **changes)

    estimator = Estimator(1.0)
    seen = []
    for second, steps in enumerate((100, 103, 110, None, 112, 112)):
        one = snapshot(second) if steps is None else counted(second, steps)
        seen.append(estimator.update(one, ()).steps)
        estimator.restart_window()
    assert [step and (step.n, step.tokens) for step in seen] == [None, (6, 42), (14, 98), None, (4, 28), (0, 0)]
    assert estimator.update(counted(20, 500), ()).steps is None  # over a gap


def test_a_core_that_did_not_answer_breaks_no_window() -> None:
    def cores(second: int, *indices: int) -> Any:
        return stats(*(replace(stats().cores[0], index=i, evictions=10 * second) for i in indices))

    estimator = Estimator(1.0)
    for second, indices in enumerate(((0, 1), (0, 1), (0,))):
        view = estimator.update(snapshot(second, engine=cores(second, *indices)), ())
    assert view.evictions_per_s is None
    assert estimator.update(snapshot(3, engine=cores(3, 0, 1)), ()).evictions_per_s == 20


def test_signals_and_view_agree_on_names() -> None:
    assert {name for name, _ in View(0.0).signals()} == set(SIGNALS)


def test_demand_is_what_waits_for_room() -> None:
    def demand(waiting: float | None, deferred: float | None, held: int | None) -> float | None:
        engine = stats(replace(stats().cores[0], held=held))
        vllm = VllmReading(waiting=waiting, deferred=deferred)
        return Estimator(1.0).update(snapshot(0, vllm, engine=engine), ()).demand

    assert demand(10, 2, 3) == 5
    assert demand(10, 2, None) == 8
    assert demand(10, None, 3) == 7
    assert demand(1, 2, 3) == 0
    assert demand(None, 2, 3) is None


def test_the_oldest_waiting_is_unknown_unless_nobody_waits() -> None:
    def oldest(waiting: float | None) -> float | None:
        return Estimator(1.0).update(snapshot(0, VllmReading(waiting=waiting), engine=stats()), ()).oldest_waiting_s

    assert (oldest(0), oldest(2), oldest(None)) == (0, None, None)


def test_running_requests_without_a_token_are_a_stall_that_a_knob_does_not_end() -> None:
    estimator = Estimator(1.0)
    stalled = []
    for second, (running, tokens) in enumerate(
        ((4, 10), (4, 20), (4, 20), (4, 20), (4, 21), (0, 21), (0, 21), (1, 21))
    ):
        view = estimator.update(snapshot(second, VllmReading(running=running, generation_tokens=tokens)), ())
        stalled.append(view.stalled_s)
        estimator.restart_window()
    assert stalled == [None, 0, 1, 2, 0, 0, 0, 1]


def test_without_the_token_counter_a_stall_is_unknown() -> None:
    assert after(Estimator(1.0), VllmReading(running=4), VllmReading(running=4)).stalled_s is None


def test_sleep_and_the_spread_of_prompts_are_handed_on_from_the_core_where_they_differ_most() -> None:
    """One core that does not say is no reason to be silent about the other."""
    spread = stats(
        CoreStats(0, "a", prompt_tokens_p10=100, prompt_tokens_p90=200),
        CoreStats(1, "a", prompt_tokens_p10=50, prompt_tokens_p90=800),
        CoreStats(2, "a"),
    )
    seen = Estimator(1.0).update(snapshot(0.0, VllmReading(asleep=True), engine=spread), ())
    assert (seen.asleep, seen.prompt_spread) == (True, 16.0)
    unknown = Estimator(1.0).update(snapshot(0.0, engine=stats(CoreStats(0, "a"))), ())
    assert (unknown.asleep, unknown.prompt_spread) == (None, None)
