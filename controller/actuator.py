"""Carrying decisions out: intent on disk, one call to the engine, read back, result on disk.

Belongs here: that order. Never: deciding, or repeating a call whose answer was lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from controller.engine_client import EngineClient
from domain.decision import Decision, Status
from domain.errors import RecoverableError
from domain.runtime import EngineRuntime
from store.history import History


class Actuator:
    """One attempt per decision. A decision is applied only when the engine reads the requested value back."""

    def __init__(self, client: EngineClient, history: History, lease_s: float) -> None:
        self._client = client
        self._history = history
        self._lease_s = lease_s

    async def carry_out(
        self, run_id: int | None, runtime: EngineRuntime, intended: Sequence[Decision]
    ) -> list[Decision]:
        """Answers the decisions with their outcome. Raises HistoryUnavailable before anything was sent."""
        numbers = await self._history.add(run_id, intended)
        wanted = {d.knob: d.requested for d in intended if d.requested is not None}
        try:
            now = await self._client.set_knobs(runtime, wanted, self._lease_s)
            concluded = [_read_back(decision, now) for decision in intended]
        except RecoverableError as error:
            concluded = [replace(d, status=Status.FAILED, observed=None, error=str(error)) for d in intended]
        for number, decision in zip(numbers, concluded, strict=True):
            await self._history.conclude(number, decision.status, decision.observed, decision.error)
        return concluded


def _read_back(decision: Decision, now: EngineRuntime) -> Decision:
    knob = now.knob(decision.knob)
    observed = knob.value if knob else None
    if observed == decision.requested:
        return replace(decision, status=Status.APPLIED, observed=observed)
    error = f"the engine reads {observed} after {decision.requested} was requested"
    return replace(decision, status=Status.DIVERGED, observed=observed, error=error)
