"""What stands between a policy and the engine."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from controller.arbiter import Arbiter
from domain.decision import Decision, Mode, Proposal, Reason, Status
from domain.runtime import MAX_NUM_SEQS
from tests.views import runtime, view

AT = datetime(2026, 1, 1, tzinfo=UTC)


def propose(wanted: float | None, policy: str = "p") -> Proposal:
    return Proposal(policy, MAX_NUM_SEQS, wanted, Reason.GROW_DEMAND, "because")


def decide(arbiter: Arbiter, *proposals: Proposal, mode: Mode = Mode.AUTO, now_s: float = 100.0) -> Decision:
    (decision,) = arbiter.decide(mode, AT, view(now_s, runtime=runtime(cap=32)), proposals)
    return decision


def test_a_wish_outside_the_envelope_is_clamped_and_said() -> None:
    decision = decide(Arbiter(0), propose(500))
    assert (decision.wanted, decision.requested, decision.status) == (500, 64, Status.INTENDED)
    assert decision.guards == ("clamped from 500 to 64: the envelope of max_num_seqs is 1 to 64",)


def test_a_wish_for_the_value_in_force_is_a_hold() -> None:
    decision = decide(Arbiter(0), propose(32))
    assert (decision.status, decision.requested, decision.observed) == (Status.HOLD, None, 32)


def test_an_abstention_is_a_hold_without_a_wish() -> None:
    assert decide(Arbiter(0), propose(None)).status is Status.HOLD


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.MANUAL, Mode.PAUSED])
def test_modes_that_change_nothing_only_record(mode: Mode) -> None:
    decision = decide(Arbiter(0), propose(40), mode=mode)
    assert (decision.status, decision.requested) == (Status.RECORDED, None)


def test_of_two_wishes_for_one_knob_the_lower_wins() -> None:
    assert decide(Arbiter(0), propose(40, "a"), propose(16, "b")).policy == "b"
    assert decide(Arbiter(0), propose(None, "a"), propose(40, "b")).policy == "b"


def test_a_knob_that_just_moved_rests_for_about_a_tick() -> None:
    arbiter = Arbiter(tick_s=5)
    arbiter.tried(MAX_NUM_SEQS, 98.0, took_effect=True)
    assert decide(arbiter, propose(40)).status is Status.RECORDED
    assert decide(arbiter, propose(40), now_s=103.0).status is Status.INTENDED


def test_a_change_without_effect_is_tried_again_later_and_later_and_success_ends_that() -> None:
    arbiter, now_s, tries = Arbiter(tick_s=1), 0.0, []
    while now_s < 600:
        if decide(arbiter, propose(40), now_s=now_s).status is Status.INTENDED:
            tries.append(now_s)
            arbiter.tried(MAX_NUM_SEQS, now_s, took_effect=False)
        now_s += 1.0
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses == sorted(pauses)
    assert len(tries) <= 10
    arbiter.tried(MAX_NUM_SEQS, now_s, took_effect=True)
    assert decide(arbiter, propose(40), now_s=now_s + 1).status is Status.INTENDED


def test_cores_that_disagree_are_brought_to_the_lowest_value_in_force() -> None:
    low, high = runtime(cap=16).cores[0], runtime(cap=32).cores[0]
    torn = replace(runtime(cap=16), cores=(low, high))
    (decision,) = Arbiter(0).decide(Mode.AUTO, AT, view(runtime=torn), [propose(16)])
    assert (decision.old, decision.requested, decision.status) == (16, 16, Status.INTENDED)
