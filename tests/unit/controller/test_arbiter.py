"""From what the guards rule to decisions as the history has them."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from controller.deciding.arbiter import Arbiter
from domain.decision import Decision, Mode, Priority, Proposal, Reason, Status
from domain.knobs import MAX_NUM_SEQS
from domain.runtime import EngineRuntime
from policies.guards import GuardSettings, Override
from tests.views import runtime, view

AT = datetime(2026, 1, 1, tzinfo=UTC)
CALM = GuardSettings(warm_up_s=0.0)


def arbiter(tick_s: float = 1.0, settings: GuardSettings = CALM) -> Arbiter:
    return Arbiter(tick_s, settings)


def propose(wanted: float | None, policy: str = "p", priority: Priority | None = None) -> Proposal:
    return Proposal(policy, MAX_NUM_SEQS, wanted, Reason.GROW_DEMAND, "because", priority=priority)


def decide(
    arbiter: Arbiter, *proposals: Proposal, mode: Mode = Mode.AUTO, now_s: float = 100.0, cap: float = 32
) -> Decision:
    (decision,) = arbiter.decide(mode, AT, view(now_s, runtime=runtime(cap=cap, maximum=64)), proposals)
    return decision


def test_a_wish_outside_the_envelope_is_clamped_and_said() -> None:
    decision = decide(arbiter(), propose(500))
    assert (decision.wanted, decision.requested, decision.status) == (500, 64, Status.INTENDED)
    assert decision.guards == ("clamped from 500 to 64: the envelope of max_num_seqs is 1 to 64",)


def test_a_wish_for_the_value_in_force_is_a_hold() -> None:
    decision = decide(arbiter(), propose(32))
    assert (decision.status, decision.requested, decision.observed) == (Status.HOLD, None, 32)


def test_an_abstention_is_a_hold_without_a_wish() -> None:
    assert decide(arbiter(), propose(None)).status is Status.HOLD


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.MANUAL, Mode.PAUSED])
def test_modes_that_change_nothing_only_record(mode: Mode) -> None:
    decision = decide(arbiter(), propose(40), mode=mode)
    assert (decision.status, decision.requested) == (Status.RECORDED, None)
    assert decision.guards == (f"withheld: mode {mode} changes nothing",)


def test_of_two_wishes_for_one_knob_the_lower_wins() -> None:
    assert decide(arbiter(), propose(40, "a"), propose(16, "b")).policy == "b"
    assert decide(arbiter(), propose(None, "a"), propose(40, "b")).policy == "b"


def test_a_withheld_change_is_recorded_with_the_guards_sentence() -> None:
    decision = decide(arbiter(settings=GuardSettings(warm_up_s=5)), propose(40))
    assert (decision.status, decision.wanted, decision.requested) == (Status.RECORDED, 40, None)
    assert decision.guards == ("withheld: the engine was met 0.0 s ago, no change before 5 s",)


def test_a_knob_that_just_moved_rests() -> None:
    judge = arbiter()
    assert decide(judge, propose(40), now_s=100.0).status is Status.INTENDED
    assert decide(judge, propose(48), now_s=101.0, cap=40).status is Status.RECORDED
    assert decide(judge, propose(48), now_s=101.5, cap=40).status is Status.INTENDED


def test_a_change_without_effect_is_tried_again_later_and_later_and_success_ends_that() -> None:
    judge, now_s, tries = arbiter(), 0.0, []
    while now_s < 600:
        if decide(judge, propose(40), now_s=now_s).status is Status.INTENDED:
            tries.append(now_s)
        now_s += 1.0
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses == sorted(pauses)
    assert 3 < len(tries) <= 10
    while decide(judge, propose(40), now_s=now_s).status is not Status.INTENDED:
        now_s += 1.0
    assert decide(judge, propose(32), now_s=now_s + 2, cap=40).status is Status.INTENDED
    assert decide(judge, propose(32), now_s=now_s + 3, cap=40).guards == (
        "withheld: max_num_seqs rests after 1 changes without effect",
    )


def torn() -> EngineRuntime:
    """Two engine cores, one at 16 and one at 32."""
    low, high = runtime(cap=16).cores[0], runtime(cap=32).cores[0]
    return replace(runtime(cap=16), cores=(low, replace(high, index=1)))


def test_cores_that_disagree_are_brought_to_the_lowest_value_in_force() -> None:
    (decision,) = arbiter().decide(Mode.AUTO, AT, view(runtime=torn()), [propose(16)])
    assert (decision.old, decision.requested, decision.status) == (16, 16, Status.INTENDED)


def test_an_override_goes_before_the_policies_until_it_is_lifted() -> None:
    judge = arbiter()
    judge.override(Override(MAX_NUM_SEQS, 48, until_s=1e9))
    assert (decide(judge, propose(16)).policy, decide(judge, propose(16)).wanted) == ("operator", 48)
    judge.lift(MAX_NUM_SEQS)
    assert decide(judge, propose(16), now_s=200.0).requested == 16


def test_a_reload_does_not_make_a_knob_forget_that_it_moved_a_moment_ago() -> None:
    judge = arbiter()
    assert decide(judge, propose(40), now_s=100.0).status is Status.INTENDED
    judge.settings = GuardSettings(warm_up_s=5.0, cooldown_s={MAX_NUM_SEQS: 60})
    assert decide(judge, propose(48), now_s=130.0, cap=40).guards == (
        "withheld: max_num_seqs rests: the last change is 30.0 s old, the next is due after 60 s",
    )
