"""Field cases whose answer is an estimate: what may be compared, and what may not."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Any

import pytest

from controller.estimation import Estimator
from domain.readings.gpu import GpuMemory, GpuReading
from domain.readings.vllm import EngineGauges, VllmReading
from domain.slo import Latency
from domain.view import View
from tests.snapshots import GIB, MIB, gpu, gpus, histogram, memory, snapshot, stats
from tests.views import runtime


def test_the_fullest_engine_is_not_hidden_by_an_average() -> None:
    """Field case M4 (the estimator's part): engine 0 runs 40 at KV 0.97, engine 1 runs 2 at KV 0.10."""
    vllm = VllmReading(
        running=42,
        waiting=0,
        kv_cache_usage_ratio=0.97,
        engines=(EngineGauges("0", 40, 0, 0.97), EngineGauges("1", 2, 0, 0.10)),
    )
    cores = [replace(stats().cores[0], index=i, kv_pool_bytes=40 * GIB) for i in (0, 1)]
    cores = [replace(core, kv_fragmentation_ratio=0.3 / (core.index + 1), held=1) for core in cores]
    devices = gpus(*(gpu(uuid, memory=memory(70 * GIB)) for uuid in "ab"))
    view = Estimator(1.0).update(snapshot(0, vllm, engine=stats(*cores), gpus=devices), ())
    assert (view.kv_cache_usage_ratio, view.running) == (0.97, 42)
    assert view.effective_memory_ratio == pytest.approx((70 - 0.03 * 40) / 80)
    assert (view.kv_fragmentation_ratio, view.held) == (0.3, 2)


def test_an_engine_core_without_a_token_is_not_hidden_by_anothers() -> None:
    """Field case M4: two requests run on engine 1, which has stopped; engine 0 generates."""
    estimator = Estimator(1.0)
    for second in range(60):
        cores = (
            EngineGauges("0", 40, 0, 0.97, generation_tokens=100 * second),
            EngineGauges("1", 2, 0, 0.10, generation_tokens=50 * min(second, 10)),
        )
        vllm = VllmReading(running=42, generation_tokens=500 + 100 * second, engines=cores)
        view = estimator.update(snapshot(second, vllm), ())
    assert view.stalled_s == 49


def test_a_counter_that_went_down_is_a_restart_and_the_rate_unknown() -> None:
    """Field case M7: 50000, 50600, 300, 900 every 10 s is unknown, 60, unknown, 60 a second; windows begin anew."""
    estimator = Estimator(10.0)
    views = []
    for i, tokens in enumerate((50000, 50600, 300, 900)):
        counted = {Latency.E2E: histogram(1000 + 10 * i)}  # vLLM's histograms came back higher by chance
        reading = VllmReading(prompt_tokens=tokens, requests_finished=1000 + 10 * i, latencies=counted)
        views.append(estimator.update(snapshot(10 * i, reading), ()))
    assert [view.prompt_tokens_per_s for view in views] == [None, 60, None, 60]
    assert [view.requests_per_s for view in views] == [None, 1, None, 1]
    assert [view.samples(Latency.E2E) for view in views] == [0, 10, 0, 10]
    assert [view.window_s for view in views] == [0, 10, 0, 10]


def hits(*gains: tuple[float, float, float], plugin: bool = False, lengths: bool = True) -> list[float | None]:
    """The hit ratio after each gain of (looked-up tokens, hit tokens, preemptions) in 10 s; prompts of 16 tokens."""
    estimator = Estimator(10.0)
    found = []
    looked_up = hit = preemptions = 0.0
    for i, (more, found_more, preempted) in enumerate(((0, 0, 0), *gains)):
        looked_up, hit, preemptions = looked_up + more, hit + found_more, preemptions + preempted
        prompts = histogram(50 * (i + 1), mean_s=16) if lengths else None
        vllm = VllmReading(
            prefix_cache_queries=looked_up, prefix_cache_hits=hit, preemptions=preemptions, prompt_lengths=prompts
        )
        known: dict[str, Any] = {"runtime": runtime()} if plugin else {}
        found.append(estimator.update(snapshot(10 * i, vllm, **known), ()).cache_hit_ratio)
    return found[1:]


def test_no_hit_is_a_ratio_of_zero_and_no_lookup_is_none() -> None:
    """Field case M10: 24000 looked up and no hit is 0 (less than a block is shared); nothing looked up is unknown."""
    assert hits((24000, 0, 0), (0, 0, 0)) == [0, None]


def test_recomputation_after_preemption_is_not_a_hit() -> None:
    """Field case M10: 32 % of hits with 480 preemptions are requests that found their own 16 tokens again."""
    assert hits((24000, 7680, 480)) == [0]
    assert hits((24000, 12000, 480)) == [pytest.approx((12000 - 7680) / (24000 - 7680))]


def test_recomputation_of_unknown_length_leaves_the_hit_ratio_unknown() -> None:
    """Field case M10."""
    assert hits((24000, 7680, 480), (24000, 7680, 0), lengths=False) == [None, 0.32]


def test_where_vllm_leaves_recomputation_out_nothing_is_taken_off() -> None:
    """Field case M10: every vLLM that the plugin supports keeps such lookups out of these counters."""
    assert hits((24000, 7680, 480), plugin=True) == [0.32]


def test_the_plugins_count_of_first_admissions_goes_before_vllms_lookups() -> None:
    """Field case M10: 480 preempted requests look up again and hit; of the first admissions none did."""
    estimator = Estimator(10.0)
    for i in range(2):
        core = replace(stats().cores[0], cache_prompt_tokens=16320 * i, cache_hit_tokens=0)
        vllm = VllmReading(prefix_cache_queries=24000 * i, prefix_cache_hits=7680 * i, preemptions=480 * i)
        view = estimator.update(snapshot(10 * i, vllm, engine=stats(core)), ())
    assert view.cache_hit_ratio == 0


def test_a_fallback_to_the_older_memory_call_is_not_a_leak() -> None:
    """Field case N8: idle A100, v2 used 8 and reserved 904 MiB, v1 used 912 MiB."""
    v2, v1 = memory(8 * MIB, 904 * MIB), memory(912 * MIB, None)
    estimator = Estimator(1.0)
    used = [_used(estimator, second, one) for second, one in enumerate((v2, v1, v2))]
    assert used == pytest.approx([8 * MIB / (80 * GIB)] * 3)


def test_where_only_the_older_memory_call_answers_its_figure_counts() -> None:
    """Field case N8: nothing says what the driver reserves, and no other card's reserve is taken for it."""
    estimator = Estimator(1.0)
    _used(estimator, 0, memory(8 * MIB, 904 * MIB), uuid="GPU-b")
    assert _used(estimator, 1, memory(912 * MIB, None)) == pytest.approx(912 * MIB / (80 * GIB))


def _used(estimator: Estimator, second: int, said: GpuMemory, uuid: str = "GPU-a") -> float | None:
    return estimator.update(snapshot(second, gpus=gpus(gpu(uuid, memory=said))), ()).gpu_memory_usage_ratio


def busy(now_s: float, awake_s: float) -> dict[str, Any]:
    """50 requests and 1000 tokens a second of an engine that has run `awake_s`; a GPU at 300 W."""
    counted = {Latency.E2E: histogram(50 * awake_s)}
    vllm = VllmReading(running=1, requests_finished=50 * awake_s, generation_tokens=1000 * awake_s, latencies=counted)
    return {"vllm": vllm, "gpus": gpus(gpu(energy_j=300 * awake_s, bar1_total_bytes=10, bar1_used_bytes=1))}


@pytest.mark.parametrize("monotonic_counts", [True, False])
def test_rates_are_not_computed_across_a_suspend(monotonic_counts: bool) -> None:
    """Field case S2: two hours of suspend, which Linux's monotonic clock leaves out and others count.

    The engine ran on another machine meanwhile: over one tick its counters gained two hours of work.
    """
    estimator = Estimator(1.0)
    for second in range(100):
        before = estimator.update(snapshot(second, **busy(second, second)), ())
    assert [before.requests_per_s, before.requests_per_s_swing_ratio] == pytest.approx([50, 0])
    views = []
    for second in range(100, 112):
        now_s, slept_s = (second + 7200, 0) if monotonic_counts else (second, 7200)
        views.append(estimator.update(snapshot(now_s, slept_s=slept_s, **busy(now_s, second + 7200)), ()))
    woke, settled = views[0], views[-1]
    assert (woke.requests_per_s, woke.joules_per_token, woke.window_s, woke.latencies) == (None, None, 0, {})
    assert (woke.requests_per_s_swing_ratio, woke.stalled_s) == (None, None)
    assert [settled.requests_per_s, settled.joules_per_token] == pytest.approx([50, 0.3])
    assert settled.requests_per_s_swing_ratio is None  # a minute of its own first


@pytest.mark.parametrize(("silent_s", "rate"), [(2.05, 50), (30, 50), (7200, None)])
def test_a_source_that_does_not_answer_takes_no_others_rates_with_it(silent_s: float, rate: float | None) -> None:
    """Field case S2: each tick waits for a hung call's deadline. Two hours of waiting were no deadline's."""
    estimator = Estimator(1.0)
    every_s = math.ceil(silent_s) + 0.01  # the schedule leaves out what a tick overran
    for i in range(5):
        now_s = i * every_s
        view = estimator.update(snapshot(now_s, took_s=silent_s, **busy(now_s, now_s)), ())
    assert view.requests_per_s == (None if rate is None else pytest.approx(rate))
    assert view.joules_per_token == (None if rate is None else pytest.approx(0.3))


def energy(estimator: Estimator, second: float, *devices: GpuReading, tokens: float | None = None) -> View:
    vllm = VllmReading(generation_tokens=tokens) if tokens is not None else None
    return estimator.update(snapshot(second, vllm, gpus=gpus(*devices)), ())


def test_an_energy_counter_that_goes_back_is_a_gap(caplog: pytest.LogCaptureFixture) -> None:
    """Field case E2: 9000000, 9600000, 120000, 720000 mJ are 600 J, a gap and 600 J; the total never falls."""
    caplog.set_level(logging.INFO)
    estimator = Estimator(1.0)
    totals, per_token = [], []
    for second, joules in enumerate((9000.0, 9600.0, 120.0, 720.0)):
        view = energy(estimator, second, gpu(energy_j=joules), tokens=1000 * second)
        totals.append(view.gpu_energy_j)
        per_token.append(view.joules_per_token)
    assert totals == [0, 600, 600, 1200]
    assert per_token == [None, 0.6, None, 0.6]
    assert [r.message for r in caplog.records] == [
        "gpu: the energy counter of GPU-a began anew; the time between is not counted"
    ]


def test_a_card_that_comes_late_brings_none_of_its_past() -> None:
    """Field case E2: the total counts from a card's first value on, and goes on when a card is lost for a while."""
    estimator = Estimator(1.0)
    a, b = gpu("a", energy_j=100), gpu("b", energy_j=5000)
    assert energy(estimator, 0, a).gpu_energy_j == 0
    assert energy(estimator, 1, replace(a, energy_j=200), b).gpu_energy_j == 100
    assert energy(estimator, 2, replace(b, energy_j=5300)).gpu_energy_j == 400
    assert energy(estimator, 3, replace(a, energy_j=350), replace(b, energy_j=5300)).gpu_energy_j == 550


def test_a_card_without_a_counter_leaves_the_total_unknown() -> None:
    """Field case E3: a part is not passed off as the whole, and power times time would be a guess."""
    view = energy(Estimator(1.0), 0, gpu("a", energy_j=100), gpu("b", power_w=300))
    assert (view.gpu_energy_j, view.gpu_power_w) == (None, None)


def test_power_is_that_of_the_engines_cards_each_once() -> None:
    """Field case E3: the engine's 2 of 8 cards at 300 W are 600 W; 3 MIG rows of a card at 52.6 W are 52.6 W."""
    two = (gpu("a", power_w=300.0), gpu("b", power_w=300.0))
    assert energy(Estimator(1.0), 0, *two).gpu_power_w == 600
    rows = [gpu(f"MIG-{i}", parent_uuid="GPU-a", power_w=52.6) for i in range(3)]
    assert energy(Estimator(1.0), 0, *rows).gpu_power_w == 52.6


def test_power_without_a_lost_card_is_not_the_engines_power() -> None:
    """Field case E3."""
    reading = gpus(gpu("a", power_w=300.0), lost=("b",))
    assert Estimator(1.0).update(snapshot(0, gpus=reading), ()).gpu_power_w is None


def test_energy_of_a_card_counts_once_over_its_mig_rows() -> None:
    """Field case E3: three MIG rows repeat their card's counter."""
    estimator = Estimator(1.0)
    for second in range(11):
        rows = [gpu(f"MIG-{i}", parent_uuid="GPU-a", energy_j=52.6 * second) for i in range(3)]
        view = energy(estimator, second, *rows)
    assert view.gpu_energy_j == pytest.approx(526)


def test_two_idle_hours_use_energy_and_have_no_joules_per_token() -> None:
    """Field case E3: 2 h at 70 W without a token is 0.14 kWh, joules per token unknown."""
    estimator = Estimator(60.0)
    for minute in range(121):
        view = energy(estimator, 60 * minute, gpu(energy_j=70.0 * 60 * minute, power_w=70.0), tokens=12345)
        assert view.joules_per_token is None
    assert view.gpu_energy_j is not None
    assert view.gpu_energy_j / 3.6e6 == pytest.approx(0.14)
