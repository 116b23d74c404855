"""What the daemon tells of itself at each tick: the values of policies.alert_thresholds.CHECKS.

What is not known now is left out. Belongs here: how each comes about. Never: thresholds, waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from controller.alerting.ticked import Ticked
from controller.estimation import STALE_TICKS
from domain.decision import Reason, Status
from domain.readings.vllm import VllmReading
from domain.snapshot import Snapshot, Source
from domain.view import View

ROLLED_BACK_S = 600.0
SET_ASIDE_S = 86400.0
LEASE_S = 60.0
"""A lease that ran out is held again with the next renewal: it is told for so long, or nobody would see it."""
DONE = frozenset({Status.APPLIED, Status.PARTIAL, Status.DIVERGED})

Check = tuple[str, float | None]


class SelfChecks:
    """One for the daemon's life. Times are the ticks' own, so it needs no clock."""

    def __init__(self, tick_s: float, set_aside_at: datetime | None = None) -> None:
        """`set_aside_at`: when a damaged history was moved away, by this run of the daemon or one before."""
        self.tick_s = tick_s
        self._set_aside_at = set_aside_at
        self._set_aside: Path | None = None
        self._answered_s: float | None = None
        self._gpus_s: float | None = None
        self._reading: VllmReading | None = None
        self._moved_s = 0.0
        self._boot_id: str | None = None
        self._expirations = 0
        self._lost_s: float | None = None
        self._undone_s: float | None = None
        self._failing_since_s: float | None = None
        self._failed = 0

    def take(self, ticked: Ticked) -> dict[str, float]:
        """All that this tick says."""
        self._failed = self._failed + 1 if ticked.failed else 0
        checks: list[Check] = [("ticks_failed", float(self._failed)), *ticked.told.items()]
        checks += self._of_history(ticked)
        checks.append(("rolled_back", self._rolled_back(ticked)))
        if ticked.snapshot is not None:
            checks += self._of_sources(ticked.snapshot)
            checks.append(("lease_lost", self._lease_lost(ticked, ticked.snapshot)))
            if ticked.view is not None:
                checks.append(("blind", self._blind(ticked.snapshot, ticked.view)))
        return {name: value for name, value in checks if value is not None}

    def _of_sources(self, snapshot: Snapshot) -> Iterator[Check]:
        yield "engine_down_s", self._engine_down_s(snapshot)
        yield "stale_s", self._stale_s(snapshot)
        yield "gpu_unresponsive_s", self._gpu_unresponsive_s(snapshot)

    def _engine_down_s(self, snapshot: Snapshot) -> float:
        if self._answered_s is None or not _silent(snapshot):
            self._answered_s = snapshot.now_s
        return snapshot.now_s - self._answered_s

    def _stale_s(self, snapshot: Snapshot) -> float | None:
        """Counters and gauges of an engine at work never all stay the same."""
        reading = snapshot.vllm
        if reading is None:
            return None
        busy = (reading.running or 0.0) + (reading.waiting or 0.0) > 0.0
        if not busy or reading != self._reading:
            self._reading, self._moved_s = reading, snapshot.now_s
        return snapshot.now_s - self._moved_s

    def _gpu_unresponsive_s(self, snapshot: Snapshot) -> float | None:
        """Where there is no NVML, or none of its GPUs is the engine's, nothing is amiss and nothing is known."""
        amiss = snapshot.gpus is None and Source.GPU in snapshot.problems
        if self._gpus_s is None or not amiss:
            self._gpus_s = snapshot.now_s
        return snapshot.now_s - self._gpus_s if amiss or snapshot.gpus is not None else None

    def _lease_lost(self, ticked: Ticked, snapshot: Snapshot) -> float | None:
        runtime = snapshot.runtime
        if runtime is None:
            return None
        ran_out = runtime.boot_id == self._boot_id and runtime.lease_expirations > self._expirations
        self._boot_id, self._expirations = runtime.boot_id, runtime.lease_expirations
        if ran_out:
            self._lost_s = snapshot.now_s
        held = all(core.lease_remaining_s is not None for core in runtime.cores) and not ticked.contested
        return float(not held or _within(self._lost_s, snapshot.now_s, LEASE_S))

    def _blind(self, snapshot: Snapshot, view: View) -> float | None:
        """An engine that is silent is down, and blind only if it comes back so."""
        if _silent(snapshot):
            return None
        age_s = view.ages_s.get(Source.METRICS)
        seen = age_s is not None and age_s <= STALE_TICKS * self.tick_s
        return float(not seen or view.running is None)

    def _rolled_back(self, ticked: Ticked) -> float:
        if any(one.reason is Reason.UNDO_WORSE and one.status in DONE for one in ticked.decisions):
            self._undone_s = ticked.now_s
        return float(_within(self._undone_s, ticked.now_s, ROLLED_BACK_S))

    def _of_history(self, ticked: Ticked) -> Iterator[Check]:
        state = ticked.history
        if state is None:
            return
        if state.problem is None:
            self._failing_since_s = None
        elif self._failing_since_s is None:
            self._failing_since_s = ticked.now_s
        since_s = self._failing_since_s
        yield "history_failing_s", 0.0 if since_s is None else ticked.now_s - since_s
        yield "history_dropped", float(state.dropped)
        if state.set_aside is not None and state.set_aside != self._set_aside:
            self._set_aside, self._set_aside_at = state.set_aside, ticked.wall
        at = self._set_aside_at
        yield "history_set_aside", float(at is not None and (ticked.wall - at).total_seconds() < SET_ASIDE_S)


def _silent(snapshot: Snapshot) -> bool:
    """Nothing at all answers for the engine."""
    return {Source.METRICS, Source.RUNTIME} <= snapshot.silent


def _within(since_s: float | None, now_s: float, seconds: float) -> bool:
    return since_s is not None and now_s - since_s < seconds
