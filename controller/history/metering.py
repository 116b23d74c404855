"""The ledger's meter: snapshots in, entries out, one a minute and for each setting of the knobs.

Belongs here: where an entry begins and ends, what is a gap. Never: a figure's formula (gains.py), writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controller.estimation.continuity import Boots
from controller.estimation.gpus import MemoryUse
from controller.estimation.windows import SLOWEST_TICK_S, STALE_TICKS
from controller.history.gains import Gains, between, setting
from domain.ledger import EnergySource, LedgerEntry
from domain.runtime import EngineRuntime
from domain.snapshot import Snapshot, Source
from domain.stretch import MINUTE_S

SOURCES = (Source.METRICS, Source.RUNTIME, Source.GPU)
"""Those that an entry rests on."""
SLEPT = "the machine slept, or its clock was set forward"
STALLED = "the daemon took no readings"
UNREADABLE = "neither vLLM nor a GPU could be read"
RESTARTED = "the engine restarted"
AWAY = "the daemon did not run"


@dataclass(slots=True)
class _Open:
    """An entry that is under way: figures of one kind, without a break between them."""

    at: datetime
    setting: Mapping[str, float | None]
    source: EnergySource
    gap_s: float
    note: str | None
    figures: dict[str, float]
    seconds: float = 0.0
    idle_s: float = 0.0

    def goes_on(self, now: Mapping[str, float | None], gains: Gains) -> bool:
        """Whether these gains are of the same kind."""
        same = self.setting == now and self.source is gains.source
        return same and self.figures.keys() == gains.figures.keys()

    def add(self, seconds: float, gains: Gains) -> None:
        self.seconds += seconds
        self.idle_s += seconds if gains.idle else 0.0
        for name, gained in gains.figures.items():
            self.figures[name] += gained

    def closed(self) -> LedgerEntry:
        measured: dict[str, Any] = {**self.figures, "seconds": self.seconds, "idle_s": self.idle_s}
        return LedgerEntry(self.at, MINUTE_S, self.setting, self.source, gap_s=self.gap_s, note=self.note, **measured)


class Metering:
    """Counts from one snapshot to the next that has every source which the one before had. A source that stays away
    for STALE_TICKS ticks is left out from then on, and what it speaks of is not known.

    The setting of the time between two snapshots is the one that the later shows: a change is sent right after a tick.
    """

    def __init__(self, tick_s: float) -> None:
        self.tick_s = tick_s
        self._boots = Boots()
        self._memory = MemoryUse()
        self._base: Snapshot | None = None
        self._latest: Snapshot | None = None
        self._open: _Open | None = None
        self._gap_s = 0.0
        self._notes: list[str] = []
        self._ended_at: datetime | None = None

    def resume(self, ended_at: datetime | None, note: str | None = None) -> None:
        """Before the first snapshot: where the ledger ends (`Ledger.end`), and what there is to say of its past."""
        self._ended_at = ended_at
        if note is not None:
            self._note(note)

    def take(self, snapshot: Snapshot) -> list[LedgerEntry]:
        """Count up to this snapshot; answers the entries that ended with it."""
        restarted = self._boots.restarted(snapshot)
        base, latest, self._latest = self._base, self._latest, snapshot
        if base is None or latest is None:
            self._begin(snapshot)
            return []
        limit_s = STALE_TICKS * self.tick_s + min(latest.took_s, SLOWEST_TICK_S)
        if why := _broken(latest, snapshot, limit_s):
            return self._break(base, snapshot, why)
        if restarted and base.vllm is not None:
            return self._break(base, snapshot, RESTARTED)
        missing = {one for one in SOURCES if base.readings[one] is not None and snapshot.readings[one] is None}
        if missing and snapshot.now_s - base.now_s <= limit_s:
            return []
        return self._count(base, snapshot)

    def close(self) -> list[LedgerEntry]:
        """What is under way ends here: the daemon stops, or another engine comes."""
        return self._end()

    def _begin(self, snapshot: Snapshot) -> None:
        self._base = snapshot
        if self._ended_at is not None:
            away_s = (snapshot.wall - self._ended_at).total_seconds()
            if away_s > 0:  # the clock may have been set back meanwhile
                self._gap_s += away_s
                self._note(AWAY)
        self._ended_at = None

    def _count(self, base: Snapshot, snapshot: Snapshot) -> list[LedgerEntry]:
        if (base.vllm is None or snapshot.vllm is None) and (base.gpus is None or snapshot.gpus is None):
            return self._break(base, snapshot, UNREADABLE)
        gains = between(base, snapshot, self._memory)
        if gains.broken is not None:
            return self._break(base, snapshot, gains.broken)
        now = _setting(base.runtime, snapshot.runtime)
        ended = [] if self._open is None or self._open.goes_on(now, gains) else self._end()
        if self._open is None:
            note = "; ".join(self._notes) or None
            self._open = _Open(base.wall, now, gains.source, self._gap_s, note, dict.fromkeys(gains.figures, 0.0))
            self._gap_s, self._notes = 0.0, []
        self._open.add(snapshot.now_s - base.now_s, gains)
        self._base = snapshot
        return ended + (self._end() if _minute(self._open.at) != _minute(snapshot.wall) else [])

    def _break(self, base: Snapshot, snapshot: Snapshot, why: str) -> list[LedgerEntry]:
        """Nothing of the time between is counted."""
        self._gap_s += max(snapshot.now_s - base.now_s, (snapshot.wall - base.wall).total_seconds())
        self._note(why)
        self._base = snapshot
        return self._end()

    def _note(self, why: str) -> None:
        """For the entry that begins next; once, however long it lasts."""
        if why not in self._notes:
            self._notes.append(why)

    def _end(self) -> list[LedgerEntry]:
        ended, self._open = self._open, None
        return [] if ended is None else [ended.closed()]


def _broken(latest: Snapshot, snapshot: Snapshot, limit_s: float) -> str | None:
    """Why the time between two ticks cannot be counted, None when it can."""
    elapsed_s = snapshot.now_s - latest.now_s
    if (snapshot.wall - latest.wall).total_seconds() - elapsed_s > limit_s:
        return SLEPT
    return STALLED if elapsed_s > limit_s else None


def _setting(before: EngineRuntime | None, after: EngineRuntime | None) -> Mapping[str, float | None]:
    """Empty, which is not known, unless the engine answered on both sides."""
    return {} if before is None or after is None else setting(after)


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
