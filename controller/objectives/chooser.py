"""The objectives in force at each tick: configured, by the timetable, or proposed.

Belongs here: choosing between those, and saying it when they change. Never: calendars (timetable.py), the life of a
proposal (proposing.py), what an objective means to a policy.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any, NamedTuple

from controller.objectives import buckets
from controller.objectives.proposing import Memory, Proposing, listed
from controller.objectives.timetable import InForce, Timetable, Window
from controller.settings import Settings
from domain.decision import Decision, Evidence, Mode, Reason, Status
from domain.slo import Slo
from domain.snapshot import Snapshot
from domain.view import View

logger = logging.getLogger(__name__)

SLO = "slo"
MAINTENANCE = "maintenance"
"""What stands in the place of a knob in the history, where objectives or maintenance are the subject."""


class _Event(NamedTuple):
    subject: str
    reason: Reason
    sentence: str
    evidence: Evidence


class Objectives:
    """Asked at every tick before the view is made (`now`, `turn`) and after it (`learn`)."""

    def __init__(self, memory: Memory, settings: Settings) -> None:
        self._proposing = Proposing(memory, settings.slo.propose, settings.engine.url)
        self.window: Window | None = None
        """The maintenance window that is open: nothing is to be changed."""
        self._warned: set[tuple[Any, ...]] = set()
        self._events: list[_Event] = []
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Take other settings; what was proposed stays as long as it is of the same engine and `[slo.propose]`."""
        self._slo = settings.slo
        self._timetable = Timetable(settings.slo, settings.maintenance, settings.time_zone)
        self._proposing.configure(settings.slo.propose, settings.engine.url)
        self._in_force: InForce | None = None

    @property
    def _proposes(self) -> bool:
        return self._slo.propose.enabled and not self._slo.configured

    async def now(self, snapshot: Snapshot) -> tuple[Slo, ...]:
        """The objectives of this tick. Raises nothing."""
        if self._proposes:
            if snapshot.runtime is not None:
                await self._proposing.meet(snapshot.runtime)
            return self._proposing.current.slos if self._proposing.current is not None else ()
        found = self._timetable.objectives(snapshot.wall)
        if self._in_force is not None and found != self._in_force:
            whose = "of [slo]" if found.entry is None else f"of the schedule's entry {found.entry}"
            self._note(SLO, Reason.SLO_SCHEDULED, f"From now on the objectives {whose} hold: {listed(found.slos)}")
        self._in_force = found  # what holds at the start is no news: the settings say it
        return found.slos

    def turn(self, at: datetime) -> bool:
        """Whether a maintenance window has opened or closed since this was asked last."""
        found, before = self._timetable.window(at), self.window
        self.window = found
        if found is not None and before is None:
            until = found.until.isoformat(timespec="minutes")
            sentence = f"Maintenance window {found.name}: nothing is changed until {until}; the lease goes on"
            self._note(MAINTENANCE, Reason.MAINTENANCE_BEGAN, sentence, {"until": until})
        elif found is None and before is not None:
            self._note(MAINTENANCE, Reason.MAINTENANCE_ENDED, f"Maintenance window {before.name} is over")
        return (found is None) != (before is None)

    def learn(self, snapshot: Snapshot, view: View, mode: Mode) -> list[Decision]:
        """Take the tick's view in; answers the events that belong into the history. Raises nothing."""
        self._check_bounds(view)
        if self._proposes:
            made = self._proposing.look_on(view)
            if made is not None:
                self._note(SLO, Reason.SLO_PROPOSED, made.sentence, made.evidence)
            self._proposing.save(snapshot.wall)
        events, self._events = self._events, []
        boot_id = view.runtime.boot_id if view.runtime is not None else None
        return [_noted(event, snapshot.wall, mode, boot_id) for event in events]

    def _note(self, subject: str, reason: Reason, sentence: str, evidence: Evidence | None = None) -> None:
        self._events.append(_Event(subject, reason, sentence, evidence or {}))

    def _check_bounds(self, view: View) -> None:
        """Say once which objectives lie on no bucket bound, and how to have one there."""
        every = tuple(dict.fromkeys((*view.slos, *self._slo.every())))
        off = buckets.off_bounds(every, view.latencies)
        if not off or view.runtime is None:
            return
        key = tuple((slo, view.latencies[slo.latency].bounds) for slo in off)
        if key not in self._warned:
            self._warned.add(key)
            logger.warning("objectives: %s", buckets.warning(off, every, view.latencies, view.runtime.vllm_version))


def _noted(event: _Event, at: datetime, mode: Mode, boot_id: str | None) -> Decision:
    """An event as the history keeps it: no knob, no values."""
    return Decision(
        at=at,
        mode=mode,
        policy="objectives",
        knob=event.subject,
        old=None,
        wanted=None,
        requested=None,
        observed=None,
        status=Status.NOTED,
        reason=event.reason,
        sentence=event.sentence,
        evidence=event.evidence,
        boot_id=boot_id,
    )
