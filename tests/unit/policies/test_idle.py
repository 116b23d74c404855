"""The law of an idle engine: what no measurement asks for waits for work, and every way back goes on."""

from __future__ import annotations

from typing import Any

import pytest

from domain.decision import Mode, Proposal, Reason
from domain.knobs import ADMISSION_DELAY_MS, LENGTH_GROUPING, LONG_PREFILL_TOKEN_THRESHOLD, MAX_NUM_SEQS
from policies.batch_resize import BatchResize, BatchResizeSettings
from policies.idle import WAITS_FOR_WORK, idle, rest
from policies.registry import PoliciesSettings, build
from policies.token_budget import TokenBudget, TokenBudgetSettings
from tests.views import ITL_SLO, knob, runtime, view, with_knobs

AT_REST: dict[str, Any] = {"running": 0.0, "waiting": 0.0, "demand": 0.0, "requests_per_s": 0.05}
AT_WORK: dict[str, Any] = {"running": 6.0, "waiting": 2.0, "demand": 2.0, "requests_per_s": 5.0}


def a100(running: int) -> Any:
    base = runtime(cap=128, running=running, waiting=0, maximum=128)
    more = (
        knob(ADMISSION_DELAY_MS, 0.0, 0.0, 0.0, 1000.0),
        knob(LENGTH_GROUPING, 0.0, 0.0, 0.0, 1.0),
        knob(LONG_PREFILL_TOKEN_THRESHOLD, 0.0, 0.0, 0.0, 2048.0),
    )
    return with_knobs(base, *more)


@pytest.mark.parametrize(
    ("changes", "is_idle"),
    [
        ({}, True),
        ({"running": 1.0}, True),
        ({"running": 2.0}, False),
        ({"running": 3.0, "batch_size_current": 1.2}, True),
        ({"running": 1.0, "batch_size_current": 4.0}, False),
        ({"demand": 1.0}, False),
        ({"demand": None}, False),
        ({"running": None}, False),
    ],
)
def test_idle_is_known_and_means_that_nobody_waits_and_at_most_one_runs(changes: dict[str, Any], is_idle: bool) -> None:
    assert idle(view(**{**AT_REST, **changes})) is is_idle


@pytest.mark.parametrize("reason", list(Reason))
def test_only_what_no_measurement_asks_for_waits_for_work(reason: Reason) -> None:
    made = Proposal("somebody", MAX_NUM_SEQS, 16.0, reason, "Sixteen.")
    held = rest(view(**AT_REST), made)
    if reason in WAITS_FOR_WORK:
        assert (held.wanted, held.reason) == (8.0, Reason.HOLD_NO_DEMAND)
        assert "Sixteen." in held.sentence
    else:
        assert held is made
    assert rest(view(**AT_WORK), made) is made


def test_an_idle_engine_on_a_card_with_a_profile_is_left_as_it_was_started() -> None:
    policies = build(PoliciesSettings(), Mode.AUTO)
    states = {one.name: one.initial_state() for one in policies}
    for second in range(200):
        quiet = view(
            float(second),
            runtime=a100(second % 20 == 0),
            gpu_names=("NVIDIA A100-SXM4-80GB",),
            slos=(ITL_SLO,),
            **{**AT_REST, "running": float(second % 20 == 0)},
        )
        for one in policies:
            states[one.name], made = one.decide(states[one.name], quiet)
            for proposal in made:
                at = quiet.knob(proposal.knob)
                assert proposal.wanted in (None, 0.0 if at is None else at.value), proposal


def test_the_profiles_starting_point_is_taken_when_work_begins_however_late() -> None:
    policy = BatchResize(BatchResizeSettings())
    state, seen = policy.initial_state(), []
    for second in range(300):
        load = AT_REST if second < 290 else AT_WORK
        one = view(float(second), runtime=a100(6), gpu_names=("NVIDIA A100-SXM4-80GB",), **load)
        state, (proposal,) = policy.decide(state, one)
        seen.append(proposal)
    assert {one.reason for one in seen[:290]} == {Reason.HOLD_NO_DEMAND}
    assert (seen[290].wanted, seen[290].reason) == (48, Reason.START_PROFILE)


def test_the_seeds_table_is_applied_when_work_begins() -> None:
    policy = TokenBudget(TokenBudgetSettings())
    state = policy.initial_state()
    for second, load in enumerate((AT_REST, AT_WORK)):
        state, made = policy.decide(state, view(float(second), runtime=a100(6), **load))
        wanted = {one.knob: one.wanted for one in made}
        assert wanted[ADMISSION_DELAY_MS] == (0.0 if load is AT_REST else 50.0)
