"""What goes into the history and the log, and when.

Control goes on when the history is broken: everything is handed to the writer, which keeps it until it can be written.
Belongs here: what is news. Never: SQL, deciding, waiting for the disk but for the intent of a change.
"""

from __future__ import annotations

import logging
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from controller.history.recording import Recording
from controller.history.view_codec import Frame
from controller.watch import Condition
from domain.decision import Decision, Reason, Status
from domain.errors import HistoryUnavailable
from domain.ledger import LedgerEntry
from domain.outcome import Outcome
from domain.runtime import EngineRuntime
from domain.view import SIGNALS, View
from policies.trial import shown
from store.writer import Writer, WriterState
from store.writes import AddDecisions, AddLedger, AddReading, BeginRun, Boot, Conclude, Judge

logger = logging.getLogger(__name__)

HOLD_TICKS = 3
"""A hold is written once its reason has lasted this many ticks: reasons that alternate every tick say nothing."""
NAMED = 1000
"""So many changes can be named in the log when they are judged."""
SIGNAL_NAMES = tuple(SIGNALS)


class Recorder:
    """The loop's pen. Raises nothing."""

    def __init__(self, writer: Writer, recording: Recording, commit_timeout_s: float) -> None:
        self._writer = writer
        self._recording = recording
        self.commit_timeout_s = commit_timeout_s
        self._condition = Condition("history")
        self._bound = Condition("history in memory")
        self._dropped = 0
        self._boot: Boot | None = None
        self._applied: list[Decision] = []
        # In words, and where the history puts their numbers: whole changes would be megabytes after hours of them.
        self._changes: dict[str, tuple[str, Mapping[str, int]]] = {}
        self._news: list[Decision] = []
        self._verdicts: dict[str, Outcome] = {}
        self._said: dict[tuple[str, bool], tuple[object, ...]] = {}
        self._holds: dict[str, tuple[Reason, int]] = {}

    def begin_run(self, at: datetime, engine_url: str, runtime: EngineRuntime) -> None:
        """Open a run for a boot of the engine."""
        self._said, self._holds = {}, {}
        self._boot = Boot(at, engine_url, runtime)
        self._writer.put(BeginRun(self._boot))

    async def intend(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Give changes their uid and write them before they are sent.

        They are on disk when this returns, unless the history is broken or slower than `commit_timeout_s`: then they
        wait in memory, and the change is made all the same.
        """
        intended = [_numbered(decision) for decision in decisions]
        write = AddDecisions(self._boot, intended)
        self._changes |= {one.uid: (_values(one), write.numbers) for one in intended if one.uid is not None}
        for uid in list(self._changes)[:-NAMED]:
            del self._changes[uid]
        await self._writer.commit(write, self.commit_timeout_s)
        return intended

    def conclude(self, decisions: Sequence[Decision]) -> None:
        """Write what became of changes that were intended."""
        for decision in decisions:
            if self._is_news(decision):
                self._tell(decision)
        self._applied += [decision for decision in decisions if decision.status is Status.APPLIED]
        self._writer.put(Conclude(decisions))

    def take_applied(self) -> list[Decision]:
        """The changes that took effect since this was asked last."""
        applied, self._applied = self._applied, []
        return applied

    def judged(self, outcomes: Mapping[str, Outcome]) -> None:
        """Write what came of changes, by uid."""
        for uid, outcome in outcomes.items():
            logger.log(logging.WARNING if outcome.undo else logging.INFO, "%s: %s", self._name(uid), outcome.sentence)
        self._verdicts |= outcomes
        self._writer.put(Judge(dict(outcomes)))

    def _name(self, uid: str) -> str:
        """A change as the log names it: by its number, once the history has given it one."""
        if uid not in self._changes:
            return "an earlier change"
        values, numbers = self._changes[uid]
        return f"change {numbers[uid]} ({values})" if uid in numbers else f"change of {values}"

    def picture(self, frame: Frame) -> None:
        """Keep what the policies saw at this tick, and of it what people look up."""
        self._recording.add(self._boot, frame)

    def read(self, at: datetime, view: View, knobs: Mapping[str, float | None]) -> None:
        """Keep the signals of this tick and the values of the knobs."""
        values = array("d", [math.nan if value is None else value for _, value in view.signals()])
        self._writer.put(AddReading(self._boot, at, SIGNAL_NAMES, values, knobs))

    def count(self, entries: Sequence[LedgerEntry]) -> None:
        """Write entries of the ledger."""
        if entries:
            self._writer.put(AddLedger(self._boot, entries))

    def note(self, decisions: Sequence[Decision]) -> None:
        """Write decisions that change nothing, where they are news."""
        new = [_numbered(decision) for decision in decisions if self._is_news(decision)]
        if not new:
            return
        self._writer.put(AddDecisions(self._boot, new))
        for decision in new:
            self._tell(decision)

    def take_news(self) -> tuple[list[Decision], Mapping[str, Outcome]]:
        """The decisions that were news, and the verdicts, since this was asked last."""
        told, self._news, self._verdicts = (self._news, self._verdicts), [], {}
        return told

    def _tell(self, decision: Decision) -> None:
        self._news.append(decision)
        _log(decision)

    def end_tick(self) -> WriterState:
        """Say once what is wrong with the history."""
        state = self._writer.state()
        goes_on = "" if state.problem is None else f"{state.problem}; control goes on, what is to be written waits"
        self._condition.report(goes_on or None)
        full = state.dropped > self._dropped and state.problem is not None
        self._dropped = state.dropped
        self._bound.report(
            "as much waits as store.queue allows: the oldest is given up, readings first" if full else None
        )
        return state

    async def ledger_end(self, now: datetime) -> datetime | None:
        """Up to when the ledger of before goes; None when that is not known, or there is none."""
        try:
            return await self._writer.run(lambda history: history.ledger.end(now), self.commit_timeout_s)
        except HistoryUnavailable:
            return None  # what is wrong with it, the first tick says

    def close(self) -> None:
        """Hand over what is still kept back."""
        self._recording.flush()

    def _is_news(self, decision: Decision) -> bool:
        """Not what was said last; a hold for the same reason is one row, not one each tick. An event always is."""
        if decision.status is Status.NOTED:
            return True
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


def _values(change: Decision) -> str:
    old, new = ("?" if value is None else shown(value) for value in (change.old, change.requested))
    return f"{change.knob} {old} -> {new} at {change.at:%H:%M:%S}"


def _numbered(decision: Decision) -> Decision:
    return replace(decision, uid=uuid4().hex)


def _key(decision: Decision) -> tuple[str, bool]:
    """Tries and holds are told apart: a try that fails again between two holds is no news."""
    return decision.knob, decision.requested is not None


def _log(decision: Decision) -> None:
    amiss = decision.status in (Status.FAILED, Status.DIVERGED, Status.PARTIAL)
    level = logging.WARNING if amiss else logging.INFO
    guards = "".join(f" [{guard}]" for guard in decision.guards)
    error = f" ({decision.error})" if decision.error else ""
    logger.log(level, "%s %s: %s%s%s", decision.knob, decision.status, decision.sentence, guards, error)
