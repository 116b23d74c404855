"""The laws of the rules that came with memory, fragmentation, preemption, deferred requests and the raise window."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from domain.decision import Proposal, Reason
from domain.slo import Latency
from domain.view import View
from policies.batch_resize import BatchResize, BatchResizeSettings, BatchResizeState
from tests.views import ITL_SLO, runtime, samples, view

POLICY = BatchResize(BatchResizeSettings())


def play(seen: list[View], policy: BatchResize = POLICY) -> tuple[BatchResizeState, list[Proposal]]:
    state, made = policy.initial_state(), []
    for one in seen:
        state, (proposal,) = policy.decide(state, one)
        made.append(proposal)
    return state, made


def busy(now_s: float, cap: int, maximum: float = 64, budget: float = 2048, **changes: Any) -> View:
    return view(now_s, runtime=runtime(cap=cap, running=cap, maximum=maximum, budget=budget), **changes)


def test_requests_that_are_held_or_deferred_are_no_demand() -> None:
    _, (proposal,) = play([busy(0.0, 8, demand=0.0)])
    assert (proposal.reason, proposal.wanted) == (Reason.HOLD_NO_DEMAND, 8)


def test_a_raise_goes_to_the_lowest_recommendation_of_the_window() -> None:
    """A lull two seconds ago is not forgotten because this second is busy."""
    lull = busy(1.0, 16, demand=0.0)
    _, made = play([busy(0.0, 16, demand=0.0), lull, busy(2.0, 16), busy(3.5, 16), busy(4.5, 16)])
    assert [p.reason for p in made[2:]] == [Reason.HOLD_RAISE_WINDOW, Reason.HOLD_RAISE_WINDOW, Reason.GROW_DEMAND]
    assert "the lowest of the last 3 s counts" in made[3].sentence


def test_an_unknown_input_holds_for_the_whole_raise_window() -> None:
    _, made = play([busy(0.0, 16, kv_cache_usage_ratio=None), busy(1.0, 16)])
    assert made[1].reason is Reason.HOLD_RAISE_WINDOW


def test_the_view_right_after_a_change_of_any_knob_is_no_recommendation() -> None:
    """The windows begin anew then. A source that gives nothing is another matter."""
    fresh: dict[str, Any] = {"kv_cache_usage_ratio": 0.2, "preemptions_per_s": None, "window_s": 0.0}
    _, made = play([busy(0.0, 16, **fresh), busy(0.5, 16)])
    assert [p.reason for p in made] == [Reason.ABSTAIN_UNKNOWN, Reason.GROW_DEMAND]
    _, made = play([busy(0.0, 16, ages_s={}, **fresh), busy(0.5, 16)])
    assert [p.reason for p in made] == [Reason.ABSTAIN_UNKNOWN, Reason.HOLD_RAISE_WINDOW]


def raised(memory_before: float | None, memory_after: float | None, later_s: float = 4.0) -> Proposal:
    _, made = play(
        [
            busy(0.0, 8, gpu_memory_usage_ratio=memory_before),
            busy(1.0, 16, gpu_memory_usage_ratio=memory_after),
            busy(1.0 + later_s, 16, gpu_memory_usage_ratio=memory_after),
        ]
    )
    return made[-1]


def test_eight_more_requests_that_cost_five_percent_of_memory_are_the_last() -> None:
    proposal = raised(0.80, 0.86)
    assert (proposal.reason, proposal.wanted) == (Reason.HOLD_MEMORY_COST, 16)
    assert "6.0% of GPU memory per 8 requests (5% at most)" in proposal.sentence


def test_eight_more_requests_that_cost_less_are_not() -> None:
    assert raised(0.80, 0.84).reason is Reason.GROW_DEMAND


def test_what_a_raise_cost_is_not_held_against_it_for_ever() -> None:
    """An allocator that grew once never gives back."""
    assert raised(0.80, 0.86, later_s=301.0).reason is Reason.GROW_DEMAND


@pytest.mark.parametrize(("before", "after"), [(None, None), (None, 0.9), (0.8, None)])
def test_memory_that_is_unknown_does_not_hold(before: float | None, after: float | None) -> None:
    assert raised(before, after).reason is Reason.GROW_DEMAND


def test_a_level_of_memory_near_the_top_does_not_hold() -> None:
    """vLLM allocates its pool at the start: 98 % for ever is normal."""
    assert raised(0.98, 0.98).reason is Reason.GROW_DEMAND


def test_a_fragmented_allocator_holds_and_an_unknown_one_does_not() -> None:
    _, (split,) = play([busy(0.0, 8, allocator_fragmentation_ratio=0.12, gpu_utilization_ratio=0.4)])
    _, (unknown,) = play([busy(0.0, 8, allocator_fragmentation_ratio=None, gpu_utilization_ratio=None)])
    assert (split.reason, split.wanted) == (Reason.HOLD_FRAGMENTATION, 8)
    assert unknown.reason is Reason.GROW_DEMAND


def test_a_busy_gpu_alone_never_holds() -> None:
    _, (proposal,) = play([busy(0.0, 8, gpu_utilization_ratio=1.0, allocator_fragmentation_ratio=0.02)])
    assert proposal.reason is Reason.GROW_DEMAND
    assert proposal.evidence["gpu_utilization_ratio"] == 1.0


def breach(now_s: float, cap: int, deferred: float | None) -> View:
    return busy(now_s, cap, slos=(ITL_SLO,), latencies={Latency.ITL: samples(100_000, 90_000)}, deferred=deferred)


@pytest.mark.parametrize(("deferred", "wanted"), [(None, 40), (0.0, 40), (41.0, 48), (55.0, 56)])
def test_a_cut_stops_above_the_requests_that_hold_a_slot_without_running(deferred: float | None, wanted: int) -> None:
    _, (proposal,) = play([breach(0.0, 64, deferred)])
    assert (proposal.wanted, proposal.reason) == (wanted, Reason.SHRINK_INFERENCE_SLO)


def test_without_a_rung_above_them_the_cap_stays_and_says_so() -> None:
    _, (proposal,) = play([breach(0.0, 64, 92.0)])
    assert (proposal.wanted, proposal.reason) == (64, Reason.HOLD_SLOTS_TAKEN)
    assert "92 deferred requests hold a slot" in proposal.sentence


def test_deferred_requests_make_the_cap_bind() -> None:
    """Otherwise a cap that they fill up would never be raised: nobody is admitted, nothing ends."""
    seen = view(0.0, runtime=runtime(cap=16, running=2, waiting=40), deferred=14.0, demand=26.0)
    _, (proposal,) = play([seen])
    assert (proposal.wanted, proposal.reason) == (24, Reason.GROW_DEMAND)


def thrashing(now_s: float, cap: int, running: int, maximum: float = 256) -> View:
    return view(
        now_s,
        runtime=runtime(cap=cap, running=running, waiting=184, maximum=maximum),
        kv_cache_usage_ratio=1.0,
        preemptions_per_s=1.6,
    )


def test_preemptions_with_room_in_the_cache_or_too_few_of_them_are_no_cause_for_a_cut() -> None:
    room = replace(thrashing(0.0, 64, 60), kv_cache_usage_ratio=0.9)
    few = replace(thrashing(0.0, 64, 60), preemptions_per_s=0.1)
    _, made = play([room])
    _, more = play([few])
    assert made[0].wanted == more[0].wanted == 64


def test_a_cap_that_already_equals_what_runs_goes_down_by_one_rung() -> None:
    _, (proposal,) = play([thrashing(0.0, 72, 72)])
    assert (proposal.wanted, proposal.reason) == (64, Reason.SHRINK_PREEMPTING)


def test_a_cap_that_made_the_cache_overflow_is_not_tried_again_at_once() -> None:
    calm = view(10.0, runtime=runtime(cap=64, running=64, maximum=256))
    _, made = play([thrashing(0.0, 72, 72), replace(thrashing(1.0, 64, 72)), calm])
    assert (made[2].reason, made[2].wanted) == (Reason.HOLD_REFUTED, 64)


def test_the_hardware_limit_caps_growth_by_gpu_name() -> None:
    seen = busy(100.0, 32, maximum=256, gpu_names=("NVIDIA GeForce RTX 4090",))
    _, (proposal,) = play([seen])
    assert proposal.reason is Reason.HOLD_AT_LIMIT
    assert "the limit of the RTX 4090 profile is 32" in proposal.sentence


def test_an_unknown_gpu_grows_to_the_envelope() -> None:
    _, (proposal,) = play([busy(0.0, 32, maximum=256, gpu_names=("NVIDIA H200",))])
    assert proposal.wanted == 40


def test_a_limit_that_was_set_beats_the_profile() -> None:
    policy = BatchResize(BatchResizeSettings(hardware_limit=128))
    _, (proposal,) = play([busy(0.0, 32, maximum=256, gpu_names=("NVIDIA GeForce RTX 4090",))], policy)
    assert proposal.wanted == 40


A100 = ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB")


def test_an_a100_starts_from_the_golden_set() -> None:
    _, made = play([busy(0.0, 64, gpu_names=A100), busy(1.0, 48, gpu_names=A100)])
    assert (made[0].wanted, made[0].reason) == (48, Reason.START_PROFILE)
    assert made[0].evidence["growth_factor"] == 1.6
    assert made[1].reason is not Reason.START_PROFILE


def test_the_starting_point_is_not_proposed_to_an_engine_that_was_met_long_ago_or_moved() -> None:
    _, late = play([view(0.0, gpu_names=()), busy(61.0, 8, gpu_names=A100)])
    _, moved = play([busy(0.0, 48, gpu_names=A100), busy(5.0, 64, gpu_names=A100)])
    policy = BatchResize(BatchResizeSettings(start_from_profile=False))
    _, off = play([busy(0.0, 64, gpu_names=A100)], policy)
    assert Reason.START_PROFILE not in {late[1].reason, moved[1].reason, off[0].reason}


def test_the_state_survives_a_journey_through_json() -> None:
    seen = [breach(0.0, 64, None), breach(1.0, 40, None), busy(9.0, 40, gpu_memory_usage_ratio=0.5)]
    state, _ = play(seen)
    adapter = TypeAdapter(BatchResizeState)
    assert state.refuted_cap == 64
    assert state.recommended
    assert adapter.validate_json(adapter.dump_json(state)) == state


@pytest.mark.parametrize("bad", [{"growth_factor": 1.0}, {"growth_factor": 3.0}, {"growth_factor_stable": 1.2}])
def test_a_setting_out_of_its_bounds_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        BatchResizeSettings(**bad)


def breaking(now_s: float, used: float | None = 0.5, budget: int = 2048) -> View:
    """Inter-token latency breaks its objective while steps hold `used` of the token budget."""
    itl = {Latency.ITL: samples(400, 200)}
    return busy(now_s, 32, budget=budget, slos=(ITL_SLO,), latencies=itl, batch_utilization_ratio=used)


def test_a_breach_of_steps_that_hold_prompts_is_left_to_the_budget_for_a_time_and_no_longer() -> None:
    """Without a model too, though shorter: who knows whether it is the prompts or the many?"""
    _, made = play([breaking(float(second), budget=2048 - 64 * (second // 4)) for second in range(7)])
    assert [p.reason for p in made] == [Reason.HOLD_BUDGET_FIRST] * 6 + [Reason.SHRINK_INFERENCE_SLO]
    assert "a step holds 1024 tokens of 32 requests" in made[0].sentence
    for used in (None, 32 / 2048):
        _, (alone,) = play([breaking(0.0, used)])
        assert alone.reason is Reason.SHRINK_INFERENCE_SLO, "unknown, or decodes alone: the cap is what is too high"


def test_a_moment_without_measurements_does_not_begin_the_wait_for_the_budget_anew() -> None:
    """Each cut of the budget opens such a moment, so the wait would never end."""
    blind = busy(2.0, 32, budget=1024, slos=(ITL_SLO,), latencies={})
    _, made = play([breaking(0.0), breaking(1.0), blind, *(breaking(float(s), budget=1024) for s in range(3, 8))])
    assert [p.reason for p in made[5:]] == [Reason.HOLD_BUDGET_FIRST] + [Reason.SHRINK_INFERENCE_SLO] * 2


def test_a_budget_that_stands_still_is_waited_for_once_until_it_moves() -> None:
    """At its floor, pinned, or steered by nobody: the cap is what is left to cut."""
    quiet = [busy(8.0, 32, slos=(ITL_SLO,), latencies={Latency.ITL: samples(400, 0)})]
    _, made = play(
        [breaking(float(second)) for second in range(8)]
        + quiet
        + [breaking(9.0), breaking(10.0, budget=1024), breaking(11.0, budget=1024)]
    )
    reasons = [p.reason for p in made]
    left, cut = Reason.HOLD_BUDGET_FIRST, Reason.SHRINK_INFERENCE_SLO
    assert reasons[:8] == [left] * 6 + [cut] * 2
    assert reasons[9:] == [cut, left, left]
