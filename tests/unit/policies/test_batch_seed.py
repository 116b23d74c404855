"""The seeds' rule to the letter: each line of their pseudo-code."""

from __future__ import annotations

from typing import Any

import pytest

from domain.decision import Proposal, Reason
from domain.slo import Latency, Slo
from policies.batch_resize import BatchResize, BatchResizeSettings
from policies.batch_resize.settings import SeedSettings
from tests.views import runtime, samples, view

SLA = Slo(Latency.E2E, 99, 0.35)
SLOW = {Latency.E2E: samples(1000, 500, bound_s=0.35)}
FAST = {Latency.E2E: samples(1000, 0, bound_s=0.35)}


def decide(cap: int, gpu_names: tuple[str, ...] = (), settings: SeedSettings | None = None, **seen: Any) -> Proposal:
    policy = BatchResize(BatchResizeSettings(algorithm="seed", seed=settings or SeedSettings()))
    values: dict[str, Any] = {
        "slos": (SLA,),
        "latencies": FAST,
        "gpu_utilization_ratio": 0.5,
        "memory_fragmentation_ratio": 0.05,
    }
    seen_view = view(runtime=runtime(cap=cap, running=1, waiting=0, maximum=256), gpu_names=gpu_names, **values | seen)
    _, (proposal,) = policy.decide(policy.initial_state(), seen_view)
    return proposal


def test_a_p99_over_the_sla_makes_it_nine_tenths() -> None:
    proposal = decide(64, latencies={Latency.E2E: samples(1000, 500, bound_s=0.35)}, slos=(Slo(Latency.E2E, 99, 0.3),))
    assert (proposal.wanted, proposal.reason) == (57, Reason.SHRINK_P99)


def test_a_p99_past_the_last_bucket_is_over_an_sla_at_that_bucket() -> None:
    assert decide(64, latencies=SLOW).reason is Reason.SHRINK_P99


def test_the_queue_is_no_excuse_and_there_is_no_floor_but_the_engines() -> None:
    """What makes it spiral: a long queue breaks the SLA, and each cut makes the queue longer."""
    cap, steps = 64.0, 0
    while (proposal := decide(int(cap), settings=SeedSettings(sla_s=0.1), latencies=SLOW)).wanted != cap:
        assert proposal.wanted is not None
        cap, steps = proposal.wanted, steps + 1
    assert (cap, proposal.reason) == (1, Reason.HOLD_AT_FLOOR)
    assert steps < 40


def test_an_idle_gpu_without_fragments_makes_it_half_as_large_again_without_any_demand() -> None:
    proposal = decide(16)
    assert (proposal.wanted, proposal.reason) == (24, Reason.GROW_IDLE_GPU)


def test_at_most_the_hardware_limit() -> None:
    proposal = decide(48, gpu_names=("NVIDIA A100-SXM4-80GB",))
    assert proposal.wanted == 64
    assert decide(64, gpu_names=("NVIDIA A100-SXM4-80GB",)).reason is Reason.HOLD_AT_LIMIT


@pytest.mark.parametrize("seen", [{"gpu_utilization_ratio": 0.75}, {"memory_fragmentation_ratio": 0.10}])
def test_else_it_holds(seen: dict[str, Any]) -> None:
    proposal = decide(16, **seen)
    assert (proposal.wanted, proposal.reason) == (16, Reason.HOLD_STEADY)


@pytest.mark.parametrize("unknown", ["gpu_utilization_ratio", "memory_fragmentation_ratio"])
def test_a_number_that_is_unknown_cannot_be_compared_so_it_does_not_grow(unknown: str) -> None:
    missing: dict[str, Any] = {unknown: None}
    proposal = decide(16, **missing)
    assert (proposal.wanted, proposal.reason) == (16, Reason.ABSTAIN_UNKNOWN)


@pytest.mark.parametrize("seen", [{"latencies": {}}, {"slos": ()}])
def test_without_a_p99_or_an_sla_it_abstains(seen: dict[str, Any]) -> None:
    proposal = decide(16, **seen)
    assert (proposal.wanted, proposal.reason) == (None, Reason.ABSTAIN_UNKNOWN)
