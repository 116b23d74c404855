"""Purge, rollback and undo by an operator: what they say before, do, and say after; that a replay finds them again."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from controller.deciding import circumstances
from controller.history.recording import recorded
from controller.history.replaying import Replay
from controller.operations.application import Operations
from controller.operations.refusal import Kind, Refused
from domain.decision import Decision, Mode, Status
from domain.knobs import MAX_NUM_QUEUED_REQS, MAX_NUM_SEQS, NO_LIMIT, PREEMPT, PURGE
from tests.loop_rig import GROWS, Rig, ticks
from tests.operations_rig import ada, audited, operations
from tests.writers import locked, rows, written


@pytest.fixture
async def desk(rig: Rig) -> Operations:
    made = operations(rig)
    await ticks(rig, GROWS)
    return made


async def refused(call: Awaitable[Any]) -> Refused:
    with pytest.raises(Refused) as caught:
        await call
    return caught.value


async def test_a_purge_is_decided_carried_out_and_recorded_like_any_other(rig: Rig, desk: Operations) -> None:
    made = await desk.purge.run(ada(), 0.25)
    assert rig.engine.purges[-1]["ratio"] == 0.25
    (decision,) = made.decisions
    assert (decision.policy, decision.status, decision.observed) == ("operator", Status.APPLIED, 0.25)
    assert made.sentence == "The purge was done: 25% of each engine core."
    (row,) = await rig.decisions(PURGE)
    assert (row.decision.uid, row.decision.sentence[:18]) == (decision.uid, "The operator (ada)")


async def test_a_purge_that_preempts_is_one_call(rig: Rig, desk: Operations) -> None:
    made = await desk.purge.run(ada(), 0.5, preempt=2)
    (call,) = rig.engine.purges
    assert (call["ratio"], call["preempt"]) == (0.5, 2)
    assert {one.knob for one in made.decisions} == {PURGE, PREEMPT}


async def test_a_purge_is_done_once(rig: Rig, desk: Operations) -> None:
    await desk.purge.run(ada())
    await ticks(rig, 3)
    assert len(rig.engine.purges) == 1


async def test_a_purge_that_the_engine_refuses_is_refused_with_its_words(rig: Rig, desk: Operations) -> None:
    rig.engine.purge_refusal = 409, "conflict", "a purge is under way"
    error = await refused(desk.purge.run(ada()))
    assert error.kind is Kind.CONFLICT
    assert "a purge is under way" in error.reason
    assert (await audited(rig))[-1][3] == str(error)


@pytest.mark.parametrize(
    ("ratio", "preempt", "field"), [(1.01, 0, "ratio"), (-0.1, 0, "ratio"), (0, 0, "ratio"), (0.5, -1, "preempt")]
)
async def test_what_is_out_of_bounds_is_not_sent(
    rig: Rig, desk: Operations, ratio: float, preempt: int, field: str
) -> None:
    assert (await refused(desk.purge.run(ada(), ratio, preempt))).field == field
    assert rig.engine.purges == []


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PAUSED])
async def test_no_purge_in_a_mode_that_changes_nothing_and_the_plan_says_so(
    rig: Rig, desk: Operations, mode: Mode
) -> None:
    await desk.mode.set(ada(), mode)
    assert (await refused(desk.purge.run(ada()))).kind is Kind.CONFLICT
    assert f"mode {mode} changes nothing" in (desk.purge.plan().refusal or "")
    assert rig.engine.purges == []


async def test_no_purge_of_an_engine_that_does_not_answer(rig: Rig, desk: Operations) -> None:
    rig.engine.status = 503
    await ticks(rig, 1)
    assert (await refused(desk.purge.run(ada()))).kind is Kind.UNAVAILABLE


async def test_a_plan_says_what_a_purge_will_do_and_does_nothing(rig: Rig, desk: Operations) -> None:
    plan = desk.purge.plan(0.5, preempt=3)
    assert plan.refusal is None
    assert any("50% of the free cached blocks" in one for one in plan.effects)
    assert any("there is no undo" in one for one in plan.effects)
    assert any("3 of the newest running requests" in one for one in plan.effects)
    assert rig.engine.purges == []


async def test_a_rollback_says_before_what_it_will_set_and_an_undo_what_comes_back(rig: Rig) -> None:
    rig.engine.carry(MAX_NUM_QUEUED_REQS, None, 0, 1_000_000)
    rig.engine.cap, rig.engine.waiting = 32, 0
    rig.build(policies={"token_budget": {"enabled": False}, "load_shed": {"enabled": False}})
    desk = operations(rig)
    await ticks(rig, 2)
    steps = {step.knob: (step.now, step.then) for step in desk.rollback.now().enter}
    assert steps == {MAX_NUM_SEQS: (32, 8), MAX_NUM_QUEUED_REQS: (NO_LIMIT, 100)}
    made = await desk.rollback.enter(ada(), "latency")
    assert rig.engine.cap == 8
    assert desk.knobs.one(MAX_NUM_SEQS).value == 8
    assert made.current is not None
    assert (made.current.survives_restart, made.enter) == (True, ())
    back = {step.knob: step.then for step in desk.rollback.now().undo}
    assert back == {MAX_NUM_SEQS: 32, MAX_NUM_QUEUED_REQS: NO_LIMIT}
    assert (await desk.rollback.undo(ada())).current is None
    assert rig.engine.cap == 32
    error = await refused(desk.rollback.undo(ada()))
    assert (error.kind, str(error)) == (
        Kind.CONFLICT,
        "cannot undo a rollback: none is in force; there is nothing to undo",
    )
    assert [entry[1] for entry in await audited(rig)] == ["rollback", "undo", "undo"]


async def test_what_an_operator_was_answered_is_on_disk(rig: Rig, desk: Operations) -> None:
    await desk.knobs.set(ada(), {MAX_NUM_SEQS: 24})
    assert rows(rig.path, "SELECT status, observed FROM decisions WHERE policy = 'operator'") == [("applied", 24.0)]
    await desk.rollback.enter(ada())
    assert ("static", "applied", 8.0) in rows(rig.path, "SELECT policy, status, observed FROM decisions")
    await refused(desk.purge.run(ada(), 2.0))
    asked = rows(rig.path, "SELECT action, result LIKE 'cannot%' FROM actions ORDER BY id")
    assert asked == [("knobs.set", 0), ("rollback", 0), ("purge", 1)]


async def test_an_operator_is_answered_though_the_history_is_locked_and_told_that_it_is_behind(rig: Rig) -> None:
    rig.build(store={"commit_timeout_s": 0.05})
    desk = operations(rig)
    await ticks(rig, GROWS)
    await written(rig.writer)
    with locked(rig.path):
        await desk.knobs.set(ada(), {MAX_NUM_SEQS: 24})
        await ticks(rig, 1)
        assert "history" in {problem.what for problem in desk.problems()}
        assert rows(rig.path, "SELECT action FROM actions") == []
    assert [entry[1] for entry in await audited(rig)] == ["knobs.set"]


async def test_while_another_daemon_steers_nothing_is_rolled_back_purged_or_set(rig: Rig) -> None:
    rig.engine.names_holder, rig.engine.holder = True, "gpu9:8000, process 1 on gpu9"
    desk = operations(rig)
    await ticks(rig, 2)
    calls = (desk.rollback.enter(ada()), desk.purge.run(ada()), desk.knobs.set(ada(), {MAX_NUM_SEQS: 24}))
    for call in calls:
        error = await refused(call)
        assert error.kind is Kind.CONFLICT
        assert "gpu9:8000, process 1 on gpu9 steers this engine" in error.reason
    assert (rig.engine.patches, rig.engine.purges) == ([], [])
    assert desk.problems()[0].what == "lease"


async def test_a_replay_decides_as_was_decided_with_overrides_and_orders(rig: Rig, desk: Operations) -> None:
    await desk.knobs.set(ada(), {MAX_NUM_SEQS: 24}, ttl_s=60)
    await desk.purge.run(ada(), 0.5)
    await ticks(rig, 3)
    await desk.knobs.lift(ada(), MAX_NUM_SEQS)
    await ticks(rig, 4)
    await desk.knobs.set(ada(), {MAX_NUM_SEQS: 40}, ttl_s=60)
    rig.clock.s += 60
    await ticks(rig, 4)
    await rig.loop.close()
    await written(rig.writer)
    replay, again = Replay(), list[Decision]()
    async for _, frame in recorded(rig.history):
        decided = replay.decide(frame, circumstances.read(frame.context))
        again += [one for one in decided.decisions if one.requested is not None]
    made = [row.decision for row in await rig.history.decisions.select() if row.decision.requested is not None]
    assert [(one.at, one.policy, one.knob, one.requested) for one in again] == [
        (one.at, one.policy, one.knob, one.requested) for one in made
    ]
    assert {one.policy for one in made} >= {"operator", "batch_resize"}
