"""What the clock on the wall says: which objectives hold, and whether a maintenance window is open.

Belongs here: schedule entries and windows at a moment. Never: proposing objectives, deciding, reading the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from controller.objectives.cron import Cron
from controller.slo_settings import MaintenanceSettings, SlosSettings
from domain.slo import Slo


@dataclass(frozen=True, slots=True)
class InForce:
    """`entry` is the schedule's, None while none of its moments has come yet (or there is no schedule)."""

    slos: tuple[Slo, ...]
    entry: str | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A maintenance window that is open until `until`."""

    name: str
    until: datetime


class Timetable:
    """Answers for a moment. `zone` None is the machine's. Raises ValueError where that cannot be told."""

    def __init__(
        self, slo: SlosSettings, maintenance: Sequence[MaintenanceSettings] = (), zone: str | None = None
    ) -> None:
        tz = None if zone is None else ZoneInfo(zone)
        self._base = slo.objectives()
        self._entries = [(Cron(entry.cron, tz), entry) for entry in slo.schedule]
        self._recurring = [
            (Cron(one.cron, tz), timedelta(seconds=one.duration_s), one.name)
            for one in maintenance
            if one.cron is not None and one.duration_s is not None
        ]
        self._once = [
            (_aware(one.begin, tz), _aware(one.end, tz), one.name)
            for one in maintenance
            if one.begin is not None and one.end is not None
        ]

    def objectives(self, at: datetime) -> InForce:
        """Those of the entry whose moment came last; of two at the same moment the one written later."""
        begun = [(moment, entry) for cron, entry in self._entries if (moment := cron.latest(at)) is not None]
        if not begun:
            return InForce(self._base)
        last = max(moment for moment, _ in begun)
        entry = next(entry for moment, entry in reversed(begun) if moment == last)
        return InForce(entry.objectives(), entry.name)

    def window(self, at: datetime) -> Window | None:
        """The window that is open, of several the one that ends last."""
        spans = [(begin, end, name) for begin, end, name in self._once]
        spans += [
            (begin, begin + lasts, name)
            for cron, lasts, name in self._recurring
            if (begin := cron.latest(at)) is not None
        ]
        is_open = [Window(name, end) for begin, end, name in spans if begin <= at < end]
        return max(is_open, key=lambda window: window.until, default=None)


def _aware(time: datetime, zone: ZoneInfo | None) -> datetime:
    if time.tzinfo is not None:
        return time
    return time.astimezone() if zone is None else time.replace(tzinfo=zone)
