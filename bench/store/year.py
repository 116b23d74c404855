"""A year of one busy engine, as its history holds it once everything is rolled up.

Belongs here: how many rows of each kind there are, and when. Never: the numbers in them (samples.py, drawn.py), writing
them (fill.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from bench.store import drawn
from bench.store.samples import Samples
from domain.decision import Decision
from domain.ledger import LedgerEntry
from domain.runtime import EngineCore, EngineRuntime, Knob, Support
from domain.stretch import AS_READ_S, DAY_S, HOUR_S, MINUTE_S, Reading

DECISIONS = 200_000
ALERTS = 2_000
DELIVERIES_AN_ALERT = 2
ACTIONS = 500
BOOT_HOURS = 48
"""The engine is started again so often."""
MINUTES_A_CHANGE = 10
"""A setting stays for so long: a quarter of the decisions are changes."""


@dataclass(frozen=True, slots=True)
class Size:
    """How far back each kind reaches, as the daemon's settings have it; `part` of all of it."""

    part: float = 1.0

    @property
    def seconds(self) -> int:
        return self._whole_hours(24) * HOUR_S

    @property
    def minutes(self) -> int:
        return self._whole_hours(31 * 24) * 60

    @property
    def hours(self) -> int:
        return self._whole_hours(366 * 24)

    def of(self, a_year: int) -> int:
        """As many as that part of a year has."""
        return max(1, round(a_year * self.part))

    def _whole_hours(self, hours: int) -> int:
        return max(1, round(hours * self.part))


class Year:
    """Ends at `until`, a whole hour. The same seed makes the same one."""

    def __init__(self, until: datetime, size: Size, seed: int = 1) -> None:
        self.until = until
        self.size = size
        self.since = until - timedelta(hours=size.hours)
        self._chance = Random(seed)

    def runs(self) -> Iterator[tuple[datetime, EngineRuntime]]:
        """Each boot, and when it was met; `run_number` says which one a moment belongs to."""
        held = {name: Knob(name, value, value, None, None, Support.NATIVE) for name, value in drawn.ENVELOPE.items()}
        for hours in range(0, self.size.hours, BOOT_HOURS):
            boot_id = f"{Random(hours).getrandbits(48):012x}"
            core = EngineCore(0, boot_id, 1, 0, 0, held, None, 0, {})
            yield self.since + timedelta(hours=hours), EngineRuntime(boot_id, 1, "0.32.0", "0.1.0", (core,))

    def run_number(self, at: datetime) -> int:
        """Counted from 1."""
        return int((at - self.since) / timedelta(hours=BOOT_HOURS)) + 1

    def decisions(self) -> Iterator[Decision]:
        """At random moments, oldest first."""
        samples = Samples(self._chance)
        for at in self.moments(DECISIONS):
            yield samples.deal(at)

    def moments(self, a_year: int) -> list[datetime]:
        """Random ones of the whole time, oldest first."""
        span_s = (self.until - self.since).total_seconds()
        drawn = sorted(self._chance.uniform(0.0, span_s) for _ in range(self.size.of(a_year)))
        return [self.since + timedelta(seconds=s) for s in drawn]

    def readings(self) -> Iterator[Reading]:
        """Hours, then minutes, then seconds, each as far as it is kept: they do not overlap."""
        setting = drawn.Setting(self._chance)
        for at, resolution_s, _ in _stretches(self.until, self.size, (HOUR_S, MINUTE_S, AS_READ_S)):
            if resolution_s == HOUR_S or (at.minute % MINUTES_A_CHANGE == at.second == 0):
                setting.move()
            yield drawn.stretch(self._chance, at, resolution_s, setting.values)

    def ledger(self) -> Iterator[LedgerEntry]:
        """Entries of a day, an hour and a minute, one step coarser than the readings, one for each setting in it."""
        setting = drawn.Setting(self._chance)
        for at, resolution_s, seconds in _stretches(self.until, self.size, (DAY_S, HOUR_S, MINUTE_S)):
            changes = (
                seconds // 60 // MINUTES_A_CHANGE if seconds > MINUTE_S else int(at.minute % MINUTES_A_CHANGE == 0)
            )
            yield from self._entries(at, resolution_s, setting, seconds, changes)

    def _entries(
        self, at: datetime, resolution_s: int, setting: drawn.Setting, seconds: int, changes: int
    ) -> Iterator[LedgerEntry]:
        held: Counter[tuple[tuple[str, float | None], ...]] = Counter()
        for number in range(changes + 1):
            if number > 0:
                setting.move()
            held[tuple(setting.values.items())] += seconds // (changes + 1)
        for values, long in held.items():
            yield drawn.entry(self._chance, at, resolution_s, dict(values), long)


def _stretches(until: datetime, size: Size, resolutions_s: tuple[int, int, int]) -> Iterator[tuple[datetime, int, int]]:
    """Every stretch from the oldest on: when it begins, its resolution of these, how long it is. Each resolution ends
    where the next one begins, in the middle of a stretch too.
    """
    reaches = (size.hours * HOUR_S, size.minutes * 60, size.seconds)
    for resolution_s, begins_s, ends_s in zip(resolutions_s, reaches, (*reaches[1:], 0), strict=True):
        at, end = until - timedelta(seconds=begins_s), until - timedelta(seconds=ends_s)
        while at < end:
            yield at, resolution_s, min(resolution_s, round((end - at).total_seconds()))
            at += timedelta(seconds=resolution_s)
