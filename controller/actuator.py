"""Carrying decisions out: intent on disk, one call to the engine, read back, result on disk.

Belongs here: that order. Never: deciding, or repeating a call whose answer was lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from controller.engine_client import EngineClient
from controller.recorder import Recorder
from domain.decision import Decision, Status
from domain.errors import EngineUnreachable, RecoverableError
from domain.runtime import EngineRuntime


class Actuator:
    """One attempt per decision. A decision is applied only when the engine reads the requested value back."""

    def __init__(self, client: EngineClient, recorder: Recorder, lease_s: float) -> None:
        self._client = client
        self._recorder = recorder
        self._lease_s = lease_s

    async def carry_out(self, runtime: EngineRuntime, intended: Sequence[Decision]) -> list[Decision]:
        """Answers the decisions with their outcome. Raises HistoryUnavailable before anything was sent."""
        numbers = await self._recorder.intend(intended)
        wanted = {d.knob: d.requested for d in intended if d.requested is not None}
        try:
            now = await self._client.set_knobs(runtime, wanted, self._lease_s)
            concluded = [_read_back(decision, now) for decision in intended]
        except EngineUnreachable as error:
            concluded = await self._after_a_lost_answer(intended, error)
        except RecoverableError as error:
            concluded = [replace(d, status=Status.FAILED, observed=d.old, error=str(error)) for d in intended]
        await self._recorder.conclude(numbers, concluded)
        return concluded

    async def _after_a_lost_answer(self, intended: Sequence[Decision], error: EngineUnreachable) -> list[Decision]:
        """The call may have been carried out: look, never repeat."""
        try:
            now = await self._client.runtime()
        except RecoverableError:
            return [replace(d, status=Status.FAILED, observed=None, error=str(error)) for d in intended]
        read = [_read_back(decision, now) for decision in intended]
        return [d if d.status is Status.APPLIED else replace(d, status=Status.FAILED, error=str(error)) for d in read]


def _read_back(decision: Decision, now: EngineRuntime) -> Decision:
    knob = now.knob(decision.knob)
    observed = knob.value if knob else None
    if observed == decision.requested and not (knob and knob.disagreeing):
        return replace(decision, status=Status.APPLIED, observed=observed)
    error = f"the engine reads {observed} after {decision.requested} was requested"
    return replace(decision, status=Status.DIVERGED, observed=observed, error=error)
