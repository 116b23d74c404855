"""Overrides of knobs by an operator: given, held, lifted, run out, kept over restarts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from controller.operations.application import Operations
from controller.operations.refusal import Kind, Refused
from domain.decision import Mode, Reason, Status
from domain.knobs import MAX_NUM_QUEUED_REQS, MAX_NUM_SEQS, NO_LIMIT
from tests.loop_rig import Rig, ticks
from tests.operations_rig import ada, audited, operations, restarted

QUIET = {name: {"enabled": False} for name in ("token_budget", "load_shed")}


@pytest.fixture
async def desk(rig: Rig) -> Operations:
    """An engine with a queue limit, met by its daemon; nothing waits."""
    rig.engine.carry(MAX_NUM_QUEUED_REQS, None, 0, 1_000_000)
    rig.engine.waiting = 0
    rig.build(policies=QUIET)
    await ticks(rig, 2)
    return operations(rig)


async def refused(call: Callable[[], Any]) -> Refused:
    with pytest.raises(Refused) as caught:
        await call()
    return caught.value


async def test_an_override_is_in_force_when_the_call_returns_and_goes_before_the_policies(
    rig: Rig, desk: Operations
) -> None:
    made = await desk.knobs.set(ada(), {MAX_NUM_SEQS: 24}, comment="load test")
    assert rig.engine.cap == 24
    assert made.decisions[MAX_NUM_SEQS].status is Status.APPLIED
    rig.engine.waiting = 30
    await ticks(rig, 5)
    assert rig.engine.cap == 24
    state = desk.knobs.one(MAX_NUM_SEQS)
    assert state.override is not None
    assert (state.override.actor, state.override.comment, state.override.withheld) == ("ada", "load test", None)
    last = (await rig.decisions())[-1].decision
    assert (last.policy, last.reason) == ("operator", Reason.OPERATOR_OVERRIDE)


async def test_several_are_set_all_or_none(rig: Rig, desk: Operations) -> None:
    error = await refused(lambda: desk.knobs.set(ada(), {MAX_NUM_QUEUED_REQS: 50, MAX_NUM_SEQS: 65}))
    assert (error.kind, error.field) == (Kind.INVALID, MAX_NUM_SEQS)
    assert "65 is not within 1 and 64" in str(error)
    await ticks(rig, 2)
    assert (rig.engine.value(MAX_NUM_QUEUED_REQS), rig.engine.cap) == (None, 8)
    assert desk.knobs.overrides() == ()


async def test_no_limit_switches_a_limit_off_and_is_no_value_of_another_knob(rig: Rig, desk: Operations) -> None:
    await desk.knobs.set(ada(), {MAX_NUM_QUEUED_REQS: 50})
    assert rig.engine.value(MAX_NUM_QUEUED_REQS) == 50
    await desk.knobs.set(ada(), {MAX_NUM_QUEUED_REQS: NO_LIMIT})
    assert rig.engine.value(MAX_NUM_QUEUED_REQS) is None
    assert desk.knobs.one(MAX_NUM_QUEUED_REQS).value == math.inf
    error = await refused(lambda: desk.knobs.set(ada(), {MAX_NUM_SEQS: NO_LIMIT}))
    assert (error.kind, error.field) == (Kind.INVALID, MAX_NUM_SEQS)


@pytest.mark.parametrize(
    ("values", "ttl_s", "kind", "said"),
    [
        ({}, 60, Kind.INVALID, "no knob is named"),
        ({MAX_NUM_SEQS: 24}, 59, Kind.INVALID, "ttl_s = 59 is not within 60 and 604800 seconds"),
        ({MAX_NUM_SEQS: 24}, 604801, Kind.INVALID, "ttl_s = 604801"),
        ({MAX_NUM_SEQS: math.nan}, 60, Kind.INVALID, "no number"),
        ({"max_num_seq": 24}, 60, Kind.UNKNOWN, "did you mean max_num_seqs?"),
    ],
)
async def test_what_cannot_be_set_is_refused_with_the_reason(
    rig: Rig, desk: Operations, values: dict[str, float], ttl_s: float, kind: Kind, said: str
) -> None:
    error = await refused(lambda: desk.knobs.set(ada(), values, ttl_s))
    assert error.kind is kind
    assert said in str(error)
    assert rig.engine.patches == []


async def test_what_the_engine_refuses_is_not_held(rig: Rig, desk: Operations) -> None:
    rig.engine.refuses = {MAX_NUM_SEQS}
    error = await refused(lambda: desk.knobs.set(ada(), {MAX_NUM_SEQS: 24}))
    assert (error.kind, error.field) == (Kind.INVALID, MAX_NUM_SEQS)
    assert "is out of bounds" in str(error)
    assert desk.knobs.overrides() == ()


async def test_an_engine_that_does_not_answer_is_named_with_the_remedy(rig: Rig, desk: Operations) -> None:
    rig.engine.status = 503
    await ticks(rig, 1)
    error = await refused(lambda: desk.knobs.set(ada(), {MAX_NUM_SEQS: 24}))
    assert error.kind is Kind.UNAVAILABLE
    assert "did not answer in time" in error.reason
    assert rig.engine.url in error.remedy
    assert desk.knobs.now().knobs == ()


@pytest.mark.parametrize("mode", ["observe", "paused"])
async def test_a_mode_that_changes_nothing_refuses_and_names_the_modes_that_do(rig: Rig, mode: str) -> None:
    rig.build(mode=mode)
    await ticks(rig, 1)
    error = await refused(lambda: operations(rig).knobs.set(ada(), {MAX_NUM_SEQS: 24}))
    assert error.kind is Kind.CONFLICT
    assert f"mode {mode} changes nothing; switch to mode auto or manual first" in str(error)


async def test_what_a_rollback_holds_is_not_overridden(rig: Rig, desk: Operations) -> None:
    await desk.rollback.enter(ada())
    error = await refused(lambda: desk.knobs.set(ada(), {MAX_NUM_SEQS: 24}))
    assert "a rollback holds max_num_seqs at 8; undo the rollback first" in str(error)


async def test_a_rollback_goes_before_an_override_that_was_given_earlier(rig: Rig, desk: Operations) -> None:
    await desk.knobs.set(ada(), {MAX_NUM_SEQS: 4})
    await desk.rollback.enter(ada())
    assert rig.engine.cap == 8
    assert desk.knobs.overrides()[0].withheld == "a rollback holds max_num_seqs at 8"
    await desk.rollback.undo(ada())
    await ticks(rig, 1)
    assert rig.engine.cap == 4


async def test_a_version_that_is_no_longer_current_is_refused_as_stale(rig: Rig, desk: Operations) -> None:
    seen = desk.knobs.now().version
    await desk.knobs.set(ada(), {MAX_NUM_SEQS: 24}, version=seen)
    error = await refused(lambda: desk.knobs.set(ada(), {MAX_NUM_SEQS: 32}, version=seen))
    assert error.kind is Kind.STALE
    assert rig.engine.cap == 24
    await ticks(rig, 3)
    assert desk.knobs.now().version == desk.knobs.now().version


async def test_once_lifted_the_policies_go_on(rig: Rig, desk: Operations) -> None:
    await desk.knobs.set(ada(), {MAX_NUM_SEQS: 8})
    rig.engine.waiting = 30
    await ticks(rig, 5)
    assert rig.engine.cap == 8
    await desk.knobs.lift(ada(), MAX_NUM_SEQS)
    await ticks(rig, 5)
    assert rig.engine.cap > 8
    error = await refused(lambda: desk.knobs.lift(ada(), MAX_NUM_SEQS))
    assert error.kind is Kind.UNKNOWN


async def test_it_runs_out_by_itself(rig: Rig, desk: Operations) -> None:
    await desk.knobs.set(ada(), {MAX_NUM_SEQS: 24}, ttl_s=60)
    rig.clock.s += 60
    await ticks(rig, 1)
    assert desk.knobs.overrides() == ()
    assert desk.knobs.one(MAX_NUM_SEQS).override is None


async def test_it_outlives_a_restart_of_the_daemon_and_no_more_than_its_time(rig: Rig, desk: Operations) -> None:
    await desk.knobs.set(ada(), {MAX_NUM_SEQS: 24, MAX_NUM_QUEUED_REQS: NO_LIMIT}, ttl_s=600, comment="why not")
    rig.engine.cap = 64
    again = await restarted(rig, policies=QUIET)
    await ticks(rig, 2)
    assert rig.engine.cap == 24
    held = {one.knob: one for one in again.knobs.overrides()}
    assert held[MAX_NUM_QUEUED_REQS].value == NO_LIMIT
    assert (held[MAX_NUM_SEQS].comment, held[MAX_NUM_SEQS].survives_restart) == ("why not", True)
    assert 0 < held[MAX_NUM_SEQS].left_s <= 600
    rig.clock.s += 600
    await ticks(rig, 1)
    assert (await restarted(rig, policies=QUIET)).knobs.overrides() == ()


async def test_one_that_ran_out_while_the_daemon_was_away_is_not_taken_up(rig: Rig, desk: Operations) -> None:
    await desk.knobs.set(ada(), {MAX_NUM_SEQS: 24}, ttl_s=60)
    rig.build(policies=QUIET)
    rig.clock.s += 3600
    await rig.loop.restore()
    assert operations(rig).knobs.overrides() == ()


async def test_in_a_mode_that_changes_nothing_it_rests_and_says_why(rig: Rig, desk: Operations) -> None:
    await desk.knobs.set(ada(), {MAX_NUM_SEQS: 24})
    await desk.mode.set(ada(), Mode.OBSERVE)
    assert desk.knobs.overrides()[0].withheld == "mode observe changes nothing"
    rig.engine.cap = 32
    await ticks(rig, 2)
    assert rig.engine.cap == 32


async def test_every_call_is_in_the_audit_with_who_and_what_came_of_it(rig: Rig, desk: Operations) -> None:
    await desk.knobs.set(ada(), {MAX_NUM_SEQS: 24})
    await refused(lambda: desk.knobs.set(ada(), {MAX_NUM_SEQS: 65}))
    await desk.knobs.lift(ada(), MAX_NUM_SEQS)
    entries = await audited(rig)
    assert [entry[:3] for entry in entries] == [
        ("ada", "knobs.set", MAX_NUM_SEQS),
        ("ada", "knobs.set", MAX_NUM_SEQS),
        ("ada", "knobs.lift", MAX_NUM_SEQS),
    ]
    assert [entry[3] for entry in entries][::2] == ["ok", "ok"]
    assert entries[1][3].startswith("cannot set max_num_seqs: 65 is not within")
