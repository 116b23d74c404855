"""What the loop saw and did last, for those who look on: the daemon's /metrics.

Belongs here: the last picture, and counts since the start. Never: copies of the history, deciding, rendering.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from alerts.worker import ReceiverState
from controller.objectives.timetable import Window
from domain.alert import AlertState, Rule
from domain.decision import Decision, Mode
from domain.diagnosis import Diagnosis
from domain.runtime import EngineRuntime
from domain.snapshot import Snapshot
from domain.view import View
from store.writer import WriterState

DURATION_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Standing(NamedTuple):
    """Where a rule of the alerts stands."""

    rule: Rule
    state: AlertState


class Outcome(NamedTuple):
    """What decisions are counted by: few values each, so their product stays small."""

    knob: str
    policy: str
    status: str
    reason: str


@dataclass(slots=True)
class Durations:
    """How long ticks took, in buckets: `counts` has one more entry than there are bounds, for what is longer."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BOUNDS_S) + 1))
    total_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one tick."""
        self.counts[bisect_left(DURATION_BOUNDS_S, seconds)] += 1
        self.total_s += seconds


@dataclass(slots=True)
class Observed:
    """Written by the loop, read by anybody in the same thread.

    A view older than `fresh_for_s` is no picture of now: the loop stands still.
    """

    mode: Mode
    """The one in effect: a rollback or a maintenance window may have taken the configured one's place."""
    maintenance: Window | None = None
    """The maintenance window that is open."""
    fresh_for_s: float = math.inf
    snapshot: Snapshot | None = None
    view: View | None = None
    decisions: Sequence[Decision] = ()
    """Those of the last tick."""
    diagnoses: Sequence[Diagnosis] = ()
    """What was found wrong with the engine at the last tick, worst first."""
    requested: dict[str, float] = field(default_factory=dict)
    """By knob, what was last asked of this boot of the engine."""
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    durations: Durations = field(default_factory=Durations)
    ticks: int = 0
    failed_ticks: int = 0
    succeeded_at: datetime | None = None
    """When the last tick began that did not fail."""
    history: WriterState | None = None
    """How the writing of the history fared at the end of the last tick."""
    checks: Mapping[str, float] = field(default_factory=dict)
    """What the daemon last told of itself to the alerts, by name (policies.alert_thresholds.CHECKS)."""
    checked_s: float = -math.inf
    """When, by the monotonic clock: a tick that fails sees nothing, and still checks itself."""
    checks_worse: int | None = None
    """How many checks of `vllm-governor check` were good and are bad now; None: not known."""
    rules: Callable[[], Iterable[Standing]] = tuple
    """Where the alerts' rules stand now."""
    receivers: Callable[[], Mapping[str, ReceiverState]] = dict
    """How each receiver of alerts fares now."""
    _boot_id: str | None = None

    @property
    def runtime(self) -> EngineRuntime | None:
        """What the engine said at the last tick; None: it did not answer."""
        return None if self.snapshot is None else self.snapshot.runtime

    def fresh(self, now_s: float) -> bool:
        """Whether the picture is one of now."""
        return self.view is not None and now_s - self.view.now_s <= self.fresh_for_s

    def see(self, snapshot: Snapshot, view: View) -> None:
        """A tick has read its sources."""
        self.snapshot, self.view = snapshot, view
        if snapshot.runtime is not None and snapshot.runtime.boot_id != self._boot_id:
            self._boot_id = snapshot.runtime.boot_id
            self.requested.clear()

    def decide(self, decisions: Sequence[Decision]) -> None:
        """A tick has decided, and carried out what it could."""
        self.decisions = decisions
        self.outcomes.update(Outcome(d.knob, d.policy, d.status.value, d.reason.value) for d in decisions)
        self.requested.update({d.knob: d.requested for d in decisions if d.requested is not None})

    def check(self, now_s: float, checks: Mapping[str, float]) -> None:
        """A tick, failed or not, has told of itself."""
        self.checks, self.checked_s = checks, now_s

    def end_tick(self, seconds: float, *, failed: bool) -> None:
        """A tick has ended."""
        self.ticks += 1
        self.durations.add(seconds)
        if failed:
            self.failed_ticks += 1
        elif self.snapshot is not None:
            self.succeeded_at = self.snapshot.wall
