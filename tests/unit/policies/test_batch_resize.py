"""The laws of batch_resize: grow with demand and room, shrink when inference breaks the objective.

The examples have no capacity model; the properties have any.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.capacity import Capacity
from domain.decision import Proposal, Reason
from domain.slo import Latency, Slo
from domain.view import View
from policies.batch_resize import BatchResize, BatchResizeSettings, BatchResizeState
from tests.views import ITL_SLO, runtime, samples, view

POLICY = BatchResize(BatchResizeSettings())


def decide(seen: View, state: BatchResizeState | None = None) -> Proposal:
    _, (proposal,) = POLICY.decide(state or POLICY.initial_state(), seen)
    return proposal


def test_it_grows_by_at_most_eight_when_requests_wait_and_there_is_room() -> None:
    proposal = decide(view())
    assert (proposal.wanted, proposal.reason) == (16, Reason.GROW_DEMAND)
    assert "20 requests wait" in proposal.sentence
    assert proposal.evidence["waiting"] == 20


def test_an_unknown_gpu_reading_does_not_forbid_growth() -> None:
    assert decide(view(gpu_utilization_ratio=None)).reason is Reason.GROW_DEMAND


def test_a_gpu_that_reads_100_percent_does_not_forbid_growth() -> None:
    """NVML's utilisation is the share of time in which any kernel ran: one decoding request is enough for 100 %."""
    assert decide(view(gpu_utilization_ratio=1.0)).reason is Reason.GROW_DEMAND


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"runtime": runtime(waiting=0)}, Reason.HOLD_NO_DEMAND),
        ({"runtime": runtime(cap=16, running=8)}, Reason.HOLD_NO_DEMAND),
        ({"runtime": runtime(cap=64, running=64)}, Reason.HOLD_AT_LIMIT),
        ({"kv_cache_usage_ratio": 0.95}, Reason.HOLD_KV_FULL),
        ({"batch_utilization_ratio": 0.95}, Reason.HOLD_BUDGET_FIRST),
        ({"kv_cache_usage_ratio": None}, Reason.ABSTAIN_UNKNOWN),
        ({"preemptions_per_s": None}, Reason.ABSTAIN_UNKNOWN),
        ({"preemptions_per_s": 1.6}, Reason.HOLD_PREEMPTING),
        ({"runtime": runtime(cap=8, running=30)}, Reason.HOLD_DRAINING),
        ({"slos": (ITL_SLO,)}, Reason.HOLD_THIN_EVIDENCE),
        ({"slos": (ITL_SLO,), "latencies": {Latency.ITL: samples(50, 0)}}, Reason.HOLD_THIN_EVIDENCE),
        ({"slos": (ITL_SLO,), "latencies": {Latency.ITL: samples(1000, 40)}}, Reason.HOLD_SLO_MARGIN),
    ],
)
def test_it_holds_and_says_why(changes: dict[str, Any], reason: Reason) -> None:
    seen = view(**changes)
    proposal = decide(seen)
    assert proposal.reason is reason
    assert seen.runtime is not None
    assert proposal.wanted == seen.runtime.cores[0].knobs["max_num_seqs"].value


def test_it_abstains_without_an_engine_or_without_a_cap() -> None:
    assert decide(view(runtime=None)).wanted is None
    assert decide(view(runtime=runtime(cap=None))).wanted is None


def test_inference_that_breaks_the_objective_shrinks_by_the_factor_onto_a_rung() -> None:
    proposal = decide(
        view(runtime=runtime(cap=64, running=64), slos=(ITL_SLO,), latencies={Latency.ITL: samples(100_000, 10_000)})
    )
    assert (proposal.wanted, proposal.reason) == (48, Reason.SHRINK_INFERENCE_SLO)  # 64 * 0.85 = 54.4
    assert "10.0% of 100000 inter_token_latency samples are over 50 ms" in proposal.sentence


def test_a_far_miss_shrinks_steeply() -> None:
    proposal = decide(
        view(runtime=runtime(cap=64, running=64), slos=(ITL_SLO,), latencies={Latency.ITL: samples(100_000, 90_000)})
    )
    assert proposal.wanted == 40  # 64 * 0.7 = 44.8


def test_a_share_within_sampling_noise_does_not_shrink() -> None:
    """6 % over with 5 % allowed is noise at 20,000 samples of 64 at once, which are 312 steps, and a breach at
    200,000.
    """
    few = view(runtime=runtime(cap=64, running=64), slos=(ITL_SLO,), latencies={Latency.ITL: samples(20_000, 1_200)})
    many = view(runtime=runtime(cap=64, running=64), slos=(ITL_SLO,), latencies={Latency.ITL: samples(200_000, 12_000)})
    assert decide(few).reason is not Reason.SHRINK_INFERENCE_SLO
    assert decide(many).reason is Reason.SHRINK_INFERENCE_SLO


def e2e_breach(queue_mean_s: float, inference_mean_s: float, inference_over: float = 500) -> View:
    return view(
        slos=(Slo(Latency.E2E, 95, 0.05),),
        latencies={
            Latency.E2E: samples(1000, 500),
            Latency.QUEUE: samples(1000, 0, mean_s=queue_mean_s),
            Latency.INFERENCE: samples(1000, inference_over, mean_s=inference_mean_s),
        },
        runtime=runtime(cap=32, running=32),
    )


def test_a_breach_made_by_the_queue_never_shrinks_but_grows() -> None:
    assert decide(e2e_breach(queue_mean_s=2.0, inference_mean_s=0.5)).reason is Reason.GROW_DEMAND


def test_a_breach_made_by_inference_shrinks() -> None:
    assert decide(e2e_breach(queue_mean_s=0.1, inference_mean_s=2.0)).reason is Reason.SHRINK_INFERENCE_SLO


def test_a_breach_that_inference_alone_would_not_make_is_the_queues_and_never_shrinks() -> None:
    seen = e2e_breach(queue_mean_s=1.0, inference_mean_s=2.0, inference_over=50)
    assert decide(seen).reason is Reason.GROW_DEMAND


@pytest.mark.parametrize("missing", [Latency.QUEUE, Latency.INFERENCE])
def test_a_breach_that_is_nobodys_neither_shrinks_nor_grows(missing: Latency) -> None:
    seen = e2e_breach(queue_mean_s=2.0, inference_mean_s=0.5)
    seen = replace(seen, latencies={k: v for k, v in seen.latencies.items() if k is not missing})
    assert decide(seen).reason is Reason.HOLD_SLO_MARGIN


def test_an_end_to_end_objective_without_samples_holds() -> None:
    assert decide(view(slos=(Slo(Latency.E2E, 95, 0.05),))).reason is Reason.HOLD_THIN_EVIDENCE


def test_a_queue_that_seems_to_break_it_is_no_evidence_for_it() -> None:
    breach = e2e_breach(queue_mean_s=2.0, inference_mean_s=0.5)
    unseen = replace(breach, latencies={**breach.latencies, Latency.E2E: samples(99, 50)})
    assert decide(unseen).reason is Reason.HOLD_THIN_EVIDENCE


def test_a_quiet_engine_whose_few_requests_all_miss_is_cut() -> None:
    seen = view(runtime=runtime(cap=32, running=32), slos=(ITL_SLO,), latencies={Latency.ITL: samples(60, 60)})
    assert decide(seen).reason is Reason.SHRINK_INFERENCE_SLO


def test_a_first_token_breach_is_the_queues() -> None:
    slo = Slo(Latency.TTFT, 95, 0.05)
    seen = view(slos=(slo,), latencies={Latency.TTFT: samples(1000, 900)})
    assert decide(seen).reason is Reason.GROW_DEMAND


def breach(cap: int, now_s: float, over: float = 10_000) -> View:
    return view(
        now_s, runtime=runtime(cap=cap, running=cap), slos=(ITL_SLO,), latencies={Latency.ITL: samples(100_000, over)}
    )


def test_one_cut_per_effect_delay() -> None:
    state, (first,) = POLICY.decide(POLICY.initial_state(), breach(64, 0.0))
    state, (second,) = POLICY.decide(state, breach(48, 1.0))
    state, (third,) = POLICY.decide(state, breach(48, 4.5))
    assert first.wanted == 48
    assert second.reason is Reason.HOLD_EFFECT_PENDING
    assert third.reason is Reason.SHRINK_INFERENCE_SLO


def test_a_cap_that_missed_the_objective_is_not_tried_again_until_its_time_is_over() -> None:
    state, _ = POLICY.decide(POLICY.initial_state(), breach(24, 0.0))
    state, (soon,) = POLICY.decide(state, breach(16, 1.0, over=0))
    state, (later,) = POLICY.decide(state, breach(16, 10.0, over=0))
    state, (long_after,) = POLICY.decide(state, breach(16, 62.0, over=0))
    assert soon.reason is Reason.HOLD_EFFECT_PENDING
    assert later.reason is Reason.HOLD_REFUTED
    assert (long_after.reason, long_after.wanted) == (Reason.GROW_DEMAND, 24)


def test_a_cap_refuted_twice_is_avoided_twice_as_long() -> None:
    state, _ = POLICY.decide(POLICY.initial_state(), breach(24, 0.0))
    state, _ = POLICY.decide(state, breach(16, 1.0, over=0))
    state, _ = POLICY.decide(state, breach(24, 70.0))  # grown again, missed again
    state, _ = POLICY.decide(state, breach(24, 75.0))
    state, _ = POLICY.decide(state, breach(16, 76.0, over=0))
    _, (proposal,) = POLICY.decide(state, breach(16, 76.0 + 100, over=0))
    assert proposal.reason is Reason.HOLD_REFUTED


def test_on_the_way_down_each_cap_is_avoided_for_the_plain_time() -> None:
    state = POLICY.initial_state()
    for cap, now_s in ((40, 0.0), (32, 1.0), (32, 5.0), (24, 6.0), (24, 10.0)):
        state, _ = POLICY.decide(state, breach(cap, now_s))
    state, _ = POLICY.decide(state, breach(16, 11.0, over=0))
    assert (state.refuted_cap, state.refuted_for_s) == (24, 60.0)


def test_a_restart_of_the_engine_forgets_what_was_learned() -> None:
    state, _ = POLICY.decide(POLICY.initial_state(), breach(24, 0.0))
    state, _ = POLICY.decide(state, breach(16, 1.0, over=0))
    restarted = view(10.0, runtime=runtime(cap=16, running=16, boot_id="boot-b"))
    _, (proposal,) = POLICY.decide(state, restarted)
    assert proposal.reason is Reason.GROW_DEMAND


def test_it_never_shrinks_below_its_floor_and_says_so() -> None:
    assert decide(breach(8, 0.0)).reason is Reason.HOLD_AT_FLOOR


def test_an_operators_value_between_rungs_is_kept_until_there_is_cause() -> None:
    assert decide(view(runtime=runtime(cap=13, running=4, waiting=0))).wanted == 13


OBJECTIVES = (ITL_SLO, Slo(Latency.E2E, 95, 0.05))


CAPACITIES = st.builds(
    Capacity,
    a_s=st.floats(0, 0.1),
    b_s=st.floats(0, 1e-3),
    c_s=st.floats(0, 1e-6),
    relative_error=st.floats(0, 1),
    windows=st.integers(0, 100),
    trusted=st.booleans(),
    why=st.just(""),
    request_context=st.none() | st.floats(0, 1e5),
)


@st.composite
def views(draw: st.DrawFn) -> View:
    """Any view: each reading may be unknown, each latency may be missing."""
    slo = draw(st.sampled_from(OBJECTIVES))
    latencies = {}
    for latency in (slo.latency, Latency.QUEUE, Latency.INFERENCE):
        if draw(st.booleans()):
            total = draw(st.integers(0, 100_000))
            latencies[latency] = samples(total, total * draw(st.floats(0, 1)), mean_s=draw(st.floats(0.001, 10)))
    return view(
        draw(st.floats(0, 1000)),
        runtime=runtime(
            cap=draw(st.integers(1, 64)), running=draw(st.integers(0, 64)), waiting=draw(st.integers(0, 500))
        ),
        kv_cache_usage_ratio=draw(st.none() | st.floats(0, 1)),
        preemptions_per_s=draw(st.none() | st.floats(0, 10)),
        gpu_utilization_ratio=draw(st.none() | st.floats(0, 1)),
        gpu_memory_usage_ratio=draw(st.none() | st.floats(0, 1)),
        latency_slope_ratio=draw(st.none() | st.floats(-1, 3)),
        deferred=draw(st.none() | st.integers(0, 100)),
        capacity=draw(st.none() | CAPACITIES),
        slos=(slo,),
        latencies=latencies,
    )


VIEWS = views()


@given(st.lists(VIEWS, max_size=30))
def test_for_any_views_it_stays_inside_the_envelope_and_unknown_never_loosens(seen_views: list[View]) -> None:
    state = POLICY.initial_state()
    for seen in sorted(seen_views, key=lambda v: v.now_s):
        state, (proposal,) = POLICY.decide(state, seen)
        assert seen.runtime is not None
        cap = seen.runtime.cores[0].knobs["max_num_seqs"].value
        assert proposal.wanted is not None
        assert cap is not None
        assert 1 <= proposal.wanted <= 64
        assert proposal.sentence
        if (
            seen.kv_cache_usage_ratio is None
            or seen.preemptions_per_s is None
            or seen.samples(seen.slos[0].latency) < 100
        ):
            assert proposal.wanted <= cap


@given(st.lists(VIEWS, max_size=20))
def test_the_same_views_give_the_same_proposals(seen_views: list[View]) -> None:
    runs = []
    for _ in range(2):
        state, made = POLICY.initial_state(), []
        for seen in seen_views:
            state, (proposal,) = POLICY.decide(state, seen)
            made.append(proposal)
        runs.append(made)
    assert runs[0] == runs[1]
