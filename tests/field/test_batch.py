"""What happened to others when a batch was resized on a running engine, at the policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from domain.capacity import Capacity
from domain.decision import Proposal, Reason
from domain.knobs import MAX_NUM_SEQS
from domain.runtime import EngineCore, EngineRuntime
from domain.slo import Latency, Slo
from domain.snapshot import Source
from domain.view import View
from policies.batch_resize import BatchResize, BatchResizeSettings, BatchResizeState
from policies.capacity import CapacityState, model, update
from tests.views import ITL_SLO, runtime, samples, view

CAPACITY = Capacity(0.018, 90e-6, 60e-9, 0.05, 60, True, "fits", request_context=1000.0)


@pytest.fixture(params=["rules", "auto"])
def policy(request: pytest.FixtureRequest) -> BatchResize:
    """With and without the capacity model."""
    return BatchResize(BatchResizeSettings(algorithm=request.param))


def play(policy: BatchResize, seen: list[View]) -> list[Proposal]:
    state, made = policy.initial_state(), []
    for one in seen:
        state, (proposal,) = policy.decide(state, one)
        made.append(proposal)
    return made


def follow(policy: BatchResize, seen: Iterator[View] | list[View], cap: int) -> Iterator[tuple[float, float]]:
    """(when, cap) with an engine that does at once what is proposed."""
    state: BatchResizeState = policy.initial_state()
    for one in seen:
        assert one.runtime is not None
        cores = tuple(_with_cap(core, cap) for core in one.runtime.cores)
        state, (proposal,) = policy.decide(state, replace(one, runtime=replace(one.runtime, cores=cores)))
        assert proposal.wanted is not None
        assert proposal.knob == MAX_NUM_SEQS
        cap = int(proposal.wanted)
        yield one.now_s, cap


def _with_cap(core: EngineCore, cap: float) -> EngineCore:
    return replace(core, knobs={**core.knobs, MAX_NUM_SEQS: replace(core.knobs[MAX_NUM_SEQS], value=cap)})


# R1: (running, waiting, deferred, KV) while nothing is finished.
STUCK = [(29, 92, 92, 0.90), (3, 227, 227, 0.21), (4, 487, 468, 0.20)]
MISSED: dict[str, Any] = {"slos": (ITL_SLO,), "latencies": {Latency.ITL: samples(100_000, 90_000)}}


def stuck(now_s: float, number: int, cap: int, **changes: Any) -> View:
    running, waiting, deferred, kv = STUCK[number]
    return view(
        now_s,
        runtime=runtime(cap=cap, running=running, waiting=waiting, maximum=256),
        deferred=float(deferred),
        demand=float(waiting - deferred),
        kv_cache_usage_ratio=kv,
        capacity=CAPACITY,
        **changes,
    )


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("cap", [96, 128, 256])
def test_a_cap_is_never_lowered_to_or_below_the_requests_that_hold_a_slot_without_running(
    policy: BatchResize, number: int, cap: int
) -> None:
    """R1: whatever cause there is for a cut, it stops above the deferred requests or does not happen."""
    deferred = STUCK[number][2]
    for changes in (MISSED, {"kv_cache_usage_ratio": 1.0, "preemptions_per_s": 2.0}):
        one = replace(stuck(0.0, number, cap), **changes)
        caps = [cap, *(now for _, now in follow(policy, [replace(one, now_s=4.0 * i) for i in range(40)], cap))]
        assert all(after >= before or after > deferred for before, after in pairwise(caps))


def test_an_engine_that_stands_still_at_its_maximum_is_left_alone(policy: BatchResize) -> None:
    """R1: the cap is not the cure."""
    made = play(policy, [stuck(20.0 * i, i, 256) for i in range(3)])
    assert [p.wanted for p in made] == [256, 256, 256]


def test_while_a_cut_drains_there_is_no_second_one(policy: BatchResize) -> None:
    """R3: started with 128, running 100; set 16; 100 -> 70 -> 40 still run, and miss the objective all the while."""

    def draining(now_s: float, running: int) -> View:
        engine = runtime(cap=16, running=running, maximum=128)
        return view(now_s, runtime=engine, capacity=CAPACITY, **MISSED)

    made = play(policy, [draining(10.0 * i, running) for i, running in enumerate((100, 70, 40))])
    assert {(p.wanted, p.reason) for p in made} == {(16, Reason.HOLD_DRAINING)}
    assert "100 requests still run, the last cut is draining" in made[0].sentence


def test_a_cap_beyond_the_cache_steps_down_towards_what_runs_and_never_up(policy: BatchResize) -> None:
    """R5: KV 1.0, 72 running of 256, 184 waiting, 96 preemptions a minute; one step per cooldown."""
    engine = runtime(cap=256, running=72, waiting=184, maximum=256)
    thrashing = view(runtime=engine, kv_cache_usage_ratio=1.0, preemptions_per_s=1.6, capacity=CAPACITY)
    seen = [replace(thrashing, now_s=float(i)) for i in range(16)]
    moves = [(0.0, 256.0)]
    for now_s, cap in follow(policy, seen, 256):
        if cap != moves[-1][1]:
            moves.append((now_s, cap))
    assert [cap for _, cap in moves][:5] == [256, 176, 120, 80, 72]
    assert all(after < before for (_, before), (_, after) in pairwise(moves))
    assert all(later - sooner >= 3.0 for (sooner, _), (later, _) in pairwise(moves[1:]))
    calm = replace(thrashing, kv_cache_usage_ratio=0.5, runtime=runtime(cap=64, running=64, maximum=256))
    assert play(policy, [calm])[0].reason is Reason.HOLD_PREEMPTING


@pytest.mark.parametrize("hits", [0.0, 0.32, None])
def test_what_the_cache_hits_is_no_reason_to_resize(policy: BatchResize, hits: float | None) -> None:
    """M10: zero hits were right, 32 % came of recomputed preemptions, and 0/0 is unknown: the cap asks for none."""
    calm = view(runtime=runtime(cap=16, running=16), cache_hit_ratio=hits)
    preempting = replace(calm, preemptions_per_s=48.0)
    assert play(policy, [calm])[0].wanted == 24
    assert play(policy, [preempting])[0].reason is Reason.HOLD_PREEMPTING


def test_a_gpu_that_does_not_tell_its_utilisation_is_neither_idle_nor_busy(policy: BatchResize) -> None:
    """N2: under MIG utilisation is not supported; null, never 0, and growth does not wait for it."""
    unknown = play(policy, [view(gpu_utilization_ratio=None)])[0]
    assert (unknown.wanted, unknown.evidence["gpu_utilization_ratio"]) == (16, None)
    seed = BatchResize(BatchResizeSettings(algorithm="seed"))
    slo = Slo(Latency.E2E, 99, 1.0)
    fine = view(slos=(slo,), latencies={Latency.E2E: samples(1000, 0, bound_s=1.0)}, memory_fragmentation_ratio=0.0)
    assert play(seed, [fine])[0].wanted == 8  # the seeds' "GPU idle" cannot be told


def test_without_a_memory_reading_the_memory_check_is_off_and_the_rest_works(policy: BatchResize) -> None:
    """N1: unified memory: neither memory nor BAR1 can be read, power can."""
    unified = view(gpu_memory_usage_ratio=None, effective_memory_ratio=None, bar1_usage_ratio=None, gpu_power_w=11.0)
    grown = replace(unified, now_s=110.0, runtime=runtime(cap=16, running=16))
    made = play(policy, [unified, grown, replace(grown, now_s=120.0)])
    assert [p.wanted for p in made] == [16, 16, 24]
    assert made[2].evidence["memory_cost_ratio"] is None


def uneven(kv: float | None, running: tuple[int, int], cap: int = 40) -> View:
    one = runtime(cap=cap, maximum=64, cores=2)
    cores = tuple(replace(core, running=count) for core, count in zip(one.cores, running, strict=True))
    engine = EngineRuntime("boot-a", 0, "0.32.0", "0.1.0", cores)
    return view(runtime=engine, running=float(sum(running)), kv_cache_usage_ratio=kv, demand=10.0, capacity=CAPACITY)


def test_the_fullest_engine_core_decides_not_the_mean(policy: BatchResize) -> None:
    """M4: engine 0 runs 40 with KV 0.97, engine 1 runs 2 with KV 0.10: 42 run, and the cap is each core's own."""
    full = play(policy, [uneven(0.97, (40, 2))])[0]
    assert (full.wanted, full.reason, full.evidence["running"]) == (40, Reason.HOLD_KV_FULL, 42)
    assert play(policy, [uneven(0.5, (40, 2))])[0].wanted == 48
    assert play(policy, [uneven(0.5, (20, 22))])[0].reason is Reason.HOLD_NO_DEMAND  # 42 in all bind no core's 40


def test_after_a_restart_with_empty_windows_it_holds(policy: BatchResize) -> None:
    """M7: counters began anew: rates are unknown, windows empty, and what was learned belongs to another engine."""
    learned = play_state(policy)
    engine = runtime(cap=8, running=8, boot_id="boot-b")
    restarted = view(
        200.0, runtime=engine, preemptions_per_s=None, requests_per_s=None, slos=(ITL_SLO,), latencies={}, window_s=0.0
    )
    state, (proposal,) = policy.decide(learned, restarted)
    assert (proposal.wanted, proposal.reason) == (8, Reason.ABSTAIN_UNKNOWN)
    assert (state.boot_id, state.refuted_cap, state.changed_s) == ("boot-b", None, None)
    assert model(update(CapacityState(boot_id="boot-a", learned=(1.0,) * 11), restarted)) is None


def play_state(policy: BatchResize) -> BatchResizeState:
    state = policy.initial_state()
    for now_s, cap in ((0.0, 24), (1.0, 16)):
        state, _ = policy.decide(state, view(now_s, runtime=runtime(cap=cap, running=cap), **MISSED))
    assert state.refuted_cap == 24
    return state


@pytest.mark.parametrize("cap", [8, 16, 64])
def test_blind_it_is_frozen_neither_idle_nor_an_emergency(policy: BatchResize, cap: int) -> None:
    """M2: /metrics answers with nothing of the engine; the engine core itself still does, and has requests waiting."""
    why = {Source.METRICS: "cannot read metrics of vLLM: the answer holds none"}
    blind = View(
        now_s=100.0, runtime=runtime(cap=cap, running=cap, waiting=200), slos=(ITL_SLO,), problems=why,
        capacity=CAPACITY,
    )  # fmt: skip
    made = play(policy, [replace(blind, now_s=100.0 + i) for i in range(120)])
    assert {p.wanted for p in made} == {cap}
    assert made[0].reason in (Reason.ABSTAIN_UNKNOWN, Reason.HOLD_AT_LIMIT)
