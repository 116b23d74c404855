"""A change that one data-parallel engine core carries out and another does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controller.acting.actuator import Actuator
from domain.decision import Decision, Mode, Reason, Status
from domain.errors import BadReading, EngineRefused, EngineUnreachable, RecoverableError, StaleGeneration
from domain.knobs import MAX_NUM_SEQS
from domain.runtime import EngineCore, EngineRuntime, Knob, Support


def core(index: int, cap: float | None) -> EngineCore:
    support = Support.OFF if cap is None else Support.NATIVE
    knob = Knob(MAX_NUM_SEQS, cap, 64, 1, 64, support)
    return EngineCore(index, f"boot-{index}", 1, 40 if index == 0 else 2, 0, {MAX_NUM_SEQS: knob}, 10.0, 0, {})


def runtime(*caps: float | None) -> EngineRuntime:
    return EngineRuntime("+".join(f"boot-{n}" for n in range(len(caps))), 1, "0.32.0", "0.1.0",
                         tuple(core(index, cap) for index, cap in enumerate(caps)))  # fmt: skip


CHANGE = Decision(
    at=datetime(2026, 1, 1, tzinfo=UTC), mode=Mode.AUTO, policy="batch_resize", knob=MAX_NUM_SEQS, old=8, wanted=16,
    requested=16, observed=None, status=Status.INTENDED, reason=Reason.GROW_DEMAND, sentence="more",
    evidence={},
)  # fmt: skip


class Engine:
    """Plays EngineClient: answers a change with `answer`, which may be an error, and a reading with `then`."""

    def __init__(
        self, answer: EngineRuntime | RecoverableError, then: EngineRuntime | RecoverableError | None = None
    ) -> None:
        self.answer, self.then = answer, then
        self.sent = self.read = 0

    async def set_knobs(self, _runtime: object, _knobs: object, _lease_s: float) -> EngineRuntime:
        self.sent += 1
        return self._tell(self.answer)

    async def runtime(self) -> EngineRuntime:
        self.read += 1
        assert self.then is not None
        return self._tell(self.then)

    @staticmethod
    def _tell(what: EngineRuntime | RecoverableError) -> EngineRuntime:
        if isinstance(what, RecoverableError):
            raise what
        return what


class Pen:
    """Plays Recorder."""

    async def intend(self, decisions: Sequence[Decision]) -> list[Decision]:
        return [replace(one, uid=str(number)) for number, one in enumerate(decisions)]

    def conclude(self, decisions: Sequence[Decision]) -> None:
        assert [one.uid for one in decisions] == [str(number) for number in range(len(decisions))]


async def carried_out(engine: Engine, before: EngineRuntime) -> Decision:
    actuator = Actuator(engine, Pen(), 15.0)  # type: ignore[arg-type]
    (decision,) = await actuator.carry_out(before, [CHANGE])
    assert engine.sent == 1
    return decision


async def test_a_change_that_some_engines_acknowledge_is_partial_and_names_what_each_reads() -> None:
    """Field case M4: acknowledgements per engine; partial RPC success is reported as partial."""
    decision = await carried_out(Engine(runtime(16, 8)), runtime(8, 8))
    assert (decision.status, decision.observed) == (Status.PARTIAL, 8)
    assert decision.error == "engine 0 reads 16, engine 1 reads 8 after 16 was requested"


async def test_a_change_that_every_engine_acknowledges_is_applied() -> None:
    """Field case M4: the other side of it."""
    decision = await carried_out(Engine(runtime(16, 16)), runtime(8, 8))
    assert (decision.status, decision.observed, decision.error) == (Status.APPLIED, 16, None)


async def test_a_change_that_no_engine_acknowledges_is_diverged() -> None:
    """Field case M4: no acknowledgement is no part of success."""
    decision = await carried_out(Engine(runtime(8, 12)), runtime(8, 12))
    assert decision.status is Status.DIVERGED
    assert decision.error == "engine 0 reads 8, engine 1 reads 12 after 16 was requested"


async def test_an_engine_that_lost_the_knob_in_the_middle_of_it_makes_the_change_partial() -> None:
    """Field case M4: an engine that cannot say what it has acknowledges nothing."""
    decision = await carried_out(Engine(runtime(16, None)), runtime(8, 8))
    assert (decision.status, decision.observed) == (Status.PARTIAL, None)
    assert decision.error == "engine 0 reads 16, engine 1 reads None after 16 was requested"


@pytest.mark.parametrize(
    "error",
    [
        EngineUnreachable("engine 1 did not answer"),
        StaleGeneration("engine 1 did not answer"),
        BadReading("engine 1 did not answer"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_of_one_engine_hides_no_change_that_another_made(error: RecoverableError) -> None:
    """Field case M4: the call answered an error, yet a part of it is in force."""
    engine = Engine(error, then=runtime(16, 8))
    decision = await carried_out(engine, runtime(8, 8))
    assert (decision.status, engine.read) == (Status.PARTIAL, 1)
    assert decision.error == "engine 0 reads 16, engine 1 reads 8 after 16 was requested: engine 1 did not answer"


async def test_a_refusal_by_all_engines_is_failed_with_what_is_in_force() -> None:
    """Field case M4: nothing in force is no partial success."""
    decision = await carried_out(Engine(EngineRefused("out of bounds"), then=runtime(8, 8)), runtime(8, 8))
    assert (decision.status, decision.observed, decision.error) == (Status.FAILED, 8, "out of bounds")


async def test_when_nobody_answers_the_value_is_unknown() -> None:
    """Field case M4: an unknown acknowledgement is not the old value."""
    lost = EngineUnreachable("the connection broke")
    decision = await carried_out(Engine(lost, then=lost), runtime(8, 8))
    assert (decision.status, decision.observed, decision.error) == (Status.FAILED, None, "the connection broke")


async def test_the_refusal_of_the_only_engine_is_taken_at_its_word() -> None:
    """A single engine core that refuses has changed nothing (docs/rpc.md)."""
    engine = Engine(EngineRefused("out of bounds"))
    decision = await carried_out(engine, runtime(8))
    assert (decision.status, decision.observed, engine.read) == (Status.FAILED, 8, 0)


async def test_a_restarted_engine_among_several_is_looked_at_again() -> None:
    """Field case M4: the boot ids moved on while the call was under way."""
    later = replace(runtime(64, 64), boot_id="boot-7+boot-1")
    decision = await carried_out(Engine(StaleGeneration("boot-7"), then=later), runtime(8, 8))
    assert (decision.status, decision.observed, decision.error) == (Status.FAILED, 64, "boot-7")
