"""What goes into the history and the log, and when.

Belongs here: what is news, and keeping what could not be written until it can be. Never: SQL, deciding.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from controller.watch import Condition
from domain.decision import Decision, Reason, Status
from domain.errors import HistoryUnavailable
from domain.runtime import EngineRuntime
from store.history import History

logger = logging.getLogger(__name__)

HOLD_TICKS = 3
"""A hold is written once its reason has lasted this many ticks: reasons that alternate every tick say nothing."""
KEPT_OUTCOMES = 1000


class Recorder:
    """The loop's pen. Only `intend` raises: what cannot be recorded first is not done."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._condition = Condition("history")
        self._run_id: int | None = None
        self._unwritten: list[tuple[int, Decision]] = []
        self._said: dict[tuple[str, bool], tuple[object, ...]] = {}
        self._holds: dict[str, tuple[Reason, int]] = {}

    async def begin_run(self, at: datetime, node: str, engine_url: str, runtime: EngineRuntime) -> bool:
        """Open a run for a boot of the engine; False when it could not be written (try again later)."""
        self._said, self._holds = {}, {}
        try:
            self._run_id = await self._history.start_run(at, node, engine_url, runtime)
        except HistoryUnavailable as error:
            self._run_id = None
            self._condition.report(str(error))
            return False
        return True

    async def intend(self, decisions: Sequence[Decision]) -> list[int]:
        """Write changes before they are sent; answers their numbers. Raises HistoryUnavailable."""
        return await self._history.add(self._run_id, decisions)

    async def conclude(self, numbers: Sequence[int], decisions: Sequence[Decision]) -> None:
        """Write what became of changes; what cannot be written now is kept and written at a later tick."""
        for decision in decisions:
            if self._is_news(decision):
                _log(decision)
        self._unwritten += zip(numbers, decisions, strict=True)
        del self._unwritten[:-KEPT_OUTCOMES]
        await self.catch_up()

    async def catch_up(self) -> None:
        """Write the outcomes that are still owed."""
        try:
            while self._unwritten:
                number, decision = self._unwritten[0]
                await self._history.conclude(number, decision.status, decision.observed, decision.error)
                del self._unwritten[0]
        except HistoryUnavailable as error:
            self._condition.report(str(error))

    async def note(self, decisions: Sequence[Decision]) -> None:
        """Write decisions that change nothing, where they are news."""
        new = [decision for decision in decisions if self._is_news(decision)]
        if not new:
            return
        try:
            await self._history.add(self._run_id, new)
        except HistoryUnavailable as error:
            self._condition.report(str(error))
            for decision in new:
                self._said.pop(_key(decision), None)  # still to be told
            return
        self._condition.report(None)
        for decision in new:
            _log(decision)

    def withheld(self, error: HistoryUnavailable) -> None:
        """A change was not made because it could not be recorded first."""
        self._condition.report(f"no change is made: {error}")

    def _is_news(self, decision: Decision) -> bool:
        """Not what was said last; a hold for the same reason is one row, not one each tick."""
        before, ticks = self._holds.get(decision.knob, (decision.reason, 0))
        ticks = ticks + 1 if before is decision.reason else 1
        self._holds[decision.knob] = (decision.reason, ticks)
        if decision.status is Status.APPLIED:
            for tried in (False, True):  # what held or failed before may do so again, and would be news
                self._said.pop((decision.knob, tried), None)
            return True
        wish = decision.wanted if decision.status is not Status.HOLD else None
        key, said = _key(decision), (decision.status, decision.reason, wish, decision.error)
        if self._said.get(key) == said or (decision.status is Status.HOLD and ticks < HOLD_TICKS):
            return False
        self._said[key] = said
        return True


def _key(decision: Decision) -> tuple[str, bool]:
    """Tries and holds are told apart: a try that fails again between two holds is no news."""
    return decision.knob, decision.requested is not None


def _log(decision: Decision) -> None:
    level = logging.WARNING if decision.status in (Status.FAILED, Status.DIVERGED) else logging.INFO
    guards = "".join(f" [{guard}]" for guard in decision.guards)
    error = f" ({decision.error})" if decision.error else ""
    logger.log(level, "%s %s: %s%s%s", decision.knob, decision.status, decision.sentence, guards, error)
