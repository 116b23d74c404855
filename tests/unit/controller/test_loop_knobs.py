"""The loop over several knobs, acts, and policies that fail. The engine misbehaves; no real time passes."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from controller.deciding.order import Deciding
from controller.loop import Loop
from domain.decision import Mode, Priority, Proposal, Reason, Status
from domain.knobs import CONNECTION_CLOSE, LENGTH_GROUPING, MAX_NUM_QUEUED_REQS, MAX_NUM_SEQS, NO_LIMIT, PREEMPT, PURGE
from domain.view import View
from tests.loop_rig import Rig, ticks


class Script:
    """A policy that proposes what a test says, tick by tick, and nothing afterwards."""

    name = "script"

    def __init__(self, *ticks: tuple[Proposal, ...]) -> None:
        self.ticks = list(ticks)

    def initial_state(self) -> None:
        return None

    def decide(self, state: None, view: View) -> tuple[None, tuple[Proposal, ...]]:
        return None, self.ticks.pop(0) if self.ticks else ()


def wish(knob: str, wanted: float, priority: Priority | None = None) -> Proposal:
    return Proposal("script", knob, wanted, Reason.HOLD_STEADY, "because", priority=priority)


def run(rig: Rig, *policies: Any) -> Loop:
    """The loop with these policies instead of the shipped ones."""
    loop = rig.loop
    loop._deciding = Deciding(loop.settings.policies, Mode.AUTO, loop._arbiter, policies)
    return loop


async def test_several_knobs_go_in_one_call_each_read_back_for_itself(rig: Rig) -> None:
    rig.engine.carry(LENGTH_GROUPING, False, False, True)
    rig.engine.carry(MAX_NUM_QUEUED_REQS, None, 0, 1_000_000)
    run(rig, Script((), (wish(LENGTH_GROUPING, 1), wish(MAX_NUM_QUEUED_REQS, 100))))
    await ticks(rig, 2)
    assert [patch["knobs"] for patch in rig.engine.patches] == [{MAX_NUM_QUEUED_REQS: 100, LENGTH_GROUPING: True}]
    for knob, observed in ((LENGTH_GROUPING, 1), (MAX_NUM_QUEUED_REQS, 100)):
        (row,) = await rig.decisions(knob)
        assert (row.decision.status, row.decision.observed) == (Status.APPLIED, observed)


async def test_letting_go_of_the_queue_limit_is_null_on_the_wire_and_read_back_as_no_limit(rig: Rig) -> None:
    rig.engine.carry(MAX_NUM_QUEUED_REQS, None, 0, 1_000_000)
    rig.engine.knobs[MAX_NUM_QUEUED_REQS]["value"] = 100
    run(rig, Script((), (wish(MAX_NUM_QUEUED_REQS, NO_LIMIT),)))
    await ticks(rig, 2)
    assert rig.engine.patches[0]["knobs"] == {MAX_NUM_QUEUED_REQS: None}
    (row,) = await rig.decisions(MAX_NUM_QUEUED_REQS)
    assert (row.decision.old, row.decision.observed, row.decision.status) == (100, NO_LIMIT, Status.APPLIED)


async def test_a_purge_is_called_once_and_observed_as_the_share_that_was_evicted(rig: Rig) -> None:
    run(rig, Script((), (wish(PURGE, 0.5, Priority.EMERGENCY), wish(MAX_NUM_SEQS, 4, Priority.EMERGENCY))))
    await ticks(rig, 4)
    assert rig.engine.purges == [{"boot_id": "boot-a", "ratio": 0.5}]
    assert rig.engine.cached_blocks == 50
    assert rig.engine.cap == 4
    (row,) = await rig.decisions(PURGE)
    assert (row.decision.old, row.decision.requested, row.decision.observed) == (0, 0.5, 0.5)
    assert row.decision.status is Status.APPLIED


async def test_a_purge_that_evicts_nothing_is_recorded_as_not_purged_whatever_was_answered(rig: Rig) -> None:
    rig.engine.cached_blocks = 0
    run(rig, Script((), (wish(PURGE, 0.5, Priority.EMERGENCY),)))
    await ticks(rig, 3)
    (row,) = await rig.decisions(PURGE)
    assert (row.decision.status, row.decision.observed) == (Status.DIVERGED, 0)
    assert row.decision.error == "not purged: engine 0: no block was evicted"
    assert len(rig.engine.purges) == 1


async def test_a_preemption_goes_with_the_purge(rig: Rig) -> None:
    run(rig, Script((), (wish(PURGE, 1.0, Priority.EMERGENCY), wish(PREEMPT, 2, Priority.EMERGENCY))))
    await ticks(rig, 2)
    assert rig.engine.purges == [{"boot_id": "boot-a", "ratio": 1, "preempt": 2}]
    (row,) = await rig.decisions(PREEMPT)
    assert (row.decision.status, row.decision.observed) == (Status.APPLIED, 2)


async def test_a_refused_purge_is_failed_and_not_purged(rig: Rig) -> None:
    run(rig, Script((), (wish(PURGE, 0.5, Priority.EMERGENCY),)))
    await ticks(rig, 1)
    rig.engine.purge_refusal = (422, "unsupported", "prefix caching is off")
    await ticks(rig, 1)
    (row,) = await rig.decisions(PURGE)
    assert (row.decision.status, row.decision.observed) == (Status.FAILED, 0)
    assert "not purged" in (row.decision.error or "")
    assert "prefix caching is off" in (row.decision.error or "")


async def test_no_emergency_is_acted_on_while_the_metrics_are_gone(rig: Rig) -> None:
    rig.engine.metrics_status = 500
    run(rig, Script(*[(wish(PURGE, 0.5, Priority.EMERGENCY),)] * 6))
    await ticks(rig, 6)
    assert rig.engine.purges == []
    (row,) = await rig.decisions(PURGE)
    assert row.decision.guards == ("withheld: metrics never gave a reading",)


async def test_a_policy_that_raises_is_said_once_and_silences_no_other(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Script):
        name = "broken"

        def decide(self, state: None, view: View) -> tuple[None, tuple[Proposal, ...]]:
            raise ZeroDivisionError("unforeseen")

    run(rig, Broken(), Script((), (), (wish(MAX_NUM_SEQS, 4),)))
    await ticks(rig, 4)
    assert rig.engine.cap == 4
    assert rig.loop.observed.failed_ticks == 0
    assert [r.message for r in caplog.records if "broken" in r.message] == ["policy broken failed, it proposes nothing"]


async def test_right_after_meeting_an_engine_nothing_is_changed(rig: Rig) -> None:
    rig.build(guards={"warm_up_s": 5.0})
    run(rig, Script(*[(wish(MAX_NUM_SEQS, 4),)] * 10))
    await ticks(rig, 4)
    assert rig.engine.patches == []
    await ticks(rig, 1)
    assert rig.engine.cap == 4


async def test_a_diagnosis_is_kept_with_the_decisions_of_its_time_and_said_once(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.engine.metrics_status = 500
    await ticks(rig, 30)
    named = [d.cause for d in rig.loop.observed.diagnoses]
    assert "blind" in named
    assert sum(r.message.startswith("diagnosis: blind") for r in caplog.records) == 1
    assert caplog.records[0].levelno >= logging.WARNING


async def test_switch_knobs_are_true_and_false_on_the_wire(rig: Rig) -> None:
    rig.engine.carry(CONNECTION_CLOSE, False, False, True)
    run(rig, Script((), (wish(CONNECTION_CLOSE, 1),)))
    await ticks(rig, 2)
    assert rig.engine.patches[0]["knobs"] == {CONNECTION_CLOSE: True}


async def test_one_knob_that_the_engine_refuses_does_not_hold_back_the_others(rig: Rig) -> None:
    rig.engine.carry(MAX_NUM_QUEUED_REQS, None, 0, 1_000_000)
    rig.engine.refuses = {MAX_NUM_SEQS}
    run(rig, Script((), (wish(MAX_NUM_SEQS, 16), wish(MAX_NUM_QUEUED_REQS, 100, Priority.EMERGENCY))))
    await ticks(rig, 2)
    assert rig.engine.value(MAX_NUM_QUEUED_REQS) == 100
    (cut,), (raised,) = await rig.decisions(MAX_NUM_QUEUED_REQS), await rig.decisions(MAX_NUM_SEQS)
    assert cut.decision.status is Status.APPLIED
    assert (raised.decision.status, raised.decision.observed) == (Status.FAILED, 8)
    assert "out of bounds" in (raised.decision.error or "")


async def test_a_change_that_rested_on_another_generation_is_not_tried_knob_by_knob(rig: Rig) -> None:
    rig.engine.carry(MAX_NUM_QUEUED_REQS, None, 0, 1_000_000)
    run(rig, Script((), (wish(MAX_NUM_SEQS, 16), wish(MAX_NUM_QUEUED_REQS, 100))))
    await ticks(rig, 1)
    call = rig.loop._actuator._client.set_knobs

    async def late(*told: Any) -> Any:
        rig.engine.generation += 1
        return await call(*told)

    rig.loop._actuator._client.set_knobs = late  # type: ignore[method-assign, assignment]
    await ticks(rig, 1)
    assert len(rig.engine.patches) == 1
