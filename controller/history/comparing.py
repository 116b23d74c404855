"""What a replay shows: where it differs from what was recorded, and what the difference is predicted to do.

Belongs here: adding up over ticks. Never: deciding, reading the history, how it looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from controller.deciding.circumstances import Circumstances
from controller.history.replaying import Replay, asked
from controller.history.view_codec import Frame
from domain.decision import Decision, Reason, Status
from domain.view import View
from policies.forecast import forecast
from store.history import StoredDecision

WARM_UP_S = 600.0
"""A recording that begins in the middle of a daemon's life is replayed this long before anything is compared: no
policy remembers more than that. Older memories (what was avoided, a dwell) may still differ.
"""
FIRST_TICK_S = 30.0
"""A recording that begins so soon after the daemon's start holds all of its life."""
CARRIED_OUT = frozenset({Status.INTENDED, Status.APPLIED, Status.DIVERGED, Status.PARTIAL, Status.FAILED})


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: what it wanted, what was asked of the engine (None: nothing), and why."""

    policy: str
    wanted: float | None
    requested: float | None
    reason: Reason
    sentence: str
    guards: tuple[str, ...]


def side(decision: Decision) -> Side:
    """What a decision says."""
    one = decision
    return Side(one.policy, one.wanted, one.requested, one.reason, one.sentence, one.guards)


@dataclass(slots=True)
class Span:
    """Ticks in a row in which one knob differs in the same way; the words are those of the first."""

    knob: str
    begin: datetime
    end: datetime
    ticks: int
    in_force: float | None
    recorded: Side | None
    replayed: Side | None

    def shows(self, recorded: Side | None, replayed: Side | None) -> bool:
        """Whether that pair differs in the same way."""
        return _values(self.recorded) == _values(recorded) and _values(self.replayed) == _values(replayed)


@dataclass(slots=True)
class Effect:
    """Sums over the ticks in which the two want different values and the model speaks of both."""

    ticks: int = 0
    step_s: float = 0.0
    step_s_replayed: float = 0.0
    rated: int = 0
    """Ticks of those for which it also speaks of tokens a second."""
    tokens_per_s: float = 0.0
    tokens_per_s_replayed: float = 0.0
    unknown: Counter[str] = field(default_factory=Counter)
    """Ticks without a prediction, by why there is none."""


@dataclass(slots=True)
class KnobReport:
    """One knob."""

    ticks: int = 0
    changes_recorded: int = 0
    changes_replayed: int = 0
    differing: int = 0
    spans: list[Span] = field(default_factory=list)
    effect: Effect = field(default_factory=Effect)
    _goes_on: bool = False
    """The tick before differed."""

    def take(self, knob: str, at: datetime, view: View, recorded: Side | None, replayed: Side | None) -> None:
        """One tick of this knob."""
        self.ticks += 1
        self.changes_recorded += recorded is not None and recorded.requested is not None
        self.changes_replayed += replayed is not None and replayed.requested is not None
        differs = _values(recorded) != _values(replayed)
        if differs:
            in_force = _in_force(view, knob)
            if self._goes_on and self.spans[-1].shows(recorded, replayed):
                self.spans[-1].end, self.spans[-1].ticks = at, self.spans[-1].ticks + 1
            else:
                self.spans.append(Span(knob, at, at, 1, in_force, recorded, replayed))
            self.differing += 1
            _predict(self.effect, view, knob, _target(recorded, in_force), _target(replayed, in_force))
        self._goes_on = differs


@dataclass(slots=True)
class Comparison:
    """All of it. `reproduced` recorded decisions came out of the replay as they were written, `missed` did not."""

    begin: datetime | None = None
    end: datetime | None = None
    ticks: int = 0
    warm_up: int = 0
    """Ticks that were replayed and not compared."""
    reproduced: int = 0
    missed: dict[int, StoredDecision] = field(default_factory=dict)
    """By number."""
    versions: set[str] = field(default_factory=set)
    knobs: dict[str, KnobReport] = field(default_factory=dict)


class Comparing:
    """Takes recorded ticks in, oldest first. `tried` None: the replay is held against the written decisions alone."""

    def __init__(
        self, rows: Iterable[StoredDecision], as_recorded: Replay, tried: Replay | None, since: datetime | None
    ) -> None:
        self.found = Comparison()
        self._rows: dict[tuple[datetime, str], list[StoredDecision]] = {}
        for row in rows:
            self._rows.setdefault((row.decision.at, row.decision.knob), []).append(row)
        self._as_recorded, self._tried, self._since = as_recorded, tried, since
        self._daemon: str | None = None
        self._compares_from: datetime | None = None

    def take(self, frame: Frame, then: Circumstances) -> None:
        """One recorded tick."""
        decided = self._as_recorded.decide(frame, then)
        tried = self._tried.decide(frame, then) if self._tried is not None else None
        if self._tried is not None and tried is not None and asked(tried.decisions) != asked(decided.decisions):
            self._tried.forget_changes()
        if not self._counts(frame, then):
            self.found.warm_up += 1
            return
        found = self.found
        found.begin, found.end, found.ticks = found.begin or frame.at, frame.at, found.ticks + 1
        found.versions.add(then.version)
        for decision in decided.decisions:
            self._check(decision)
        other = decided.decisions if tried is None else tried.decisions
        self._compare(frame.at, decided.view, decided.decisions, other)

    def _counts(self, frame: Frame, then: Circumstances) -> bool:
        if then.daemon != self._daemon or self._compares_from is None:
            age_s = (frame.at - datetime.fromisoformat(then.daemon)).total_seconds()
            wait_s = 0.0 if age_s <= FIRST_TICK_S else WARM_UP_S
            self._daemon, self._compares_from = then.daemon, frame.at + timedelta(seconds=wait_s)
        return frame.at >= self._compares_from and (self._since is None or frame.at >= self._since)

    def _check(self, decision: Decision) -> None:
        """The history leaves out what it has said before; a clock that was set back gives one moment to two ticks."""
        rows, missed = self._rows.get((decision.at, decision.knob), []), self.found.missed
        row = next((one for one in rows if _reproduces(decision, one.decision)), None)
        if row is None:
            missed.update({one.id: one for one in rows})
            return
        rows.remove(row)
        missed.pop(row.id, None)
        self.found.reproduced += 1

    def _compare(self, at: datetime, view: View, recorded: Sequence[Decision], replayed: Sequence[Decision]) -> None:
        ours = {one.knob: side(one) for one in recorded}
        theirs = {one.knob: side(one) for one in replayed}
        for knob in dict.fromkeys((*ours, *theirs)):
            report = self.found.knobs.setdefault(knob, KnobReport())
            report.take(knob, at, view, ours.get(knob), theirs.get(knob))


def _values(one: Side | None) -> tuple[float | None, float | None] | None:
    return None if one is None else (one.wanted, one.requested)


def _in_force(view: View, knob: str) -> float | None:
    found = view.runtime.knob(knob) if view.runtime is not None else None
    return found.value if found is not None else None


def _target(one: Side | None, in_force: float | None) -> float | None:
    """The value that a side wants in force, whether or not a guard or the mode withheld it."""
    if one is None:
        return in_force
    if one.requested is not None:
        return one.requested
    return in_force if one.wanted is None else one.wanted


def _predict(effect: Effect, view: View, knob: str, value: float | None, other: float | None) -> None:
    if value is None or other is None:
        effect.unknown[f"{knob} was not known"] += 1
        return
    here, there = forecast(view, knob, value), forecast(view, knob, other)
    if isinstance(here, str) or isinstance(there, str):
        effect.unknown[here if isinstance(here, str) else str(there)] += 1
        return
    effect.ticks += 1
    effect.step_s += here.step_s
    effect.step_s_replayed += there.step_s
    if here.tokens_per_s is not None and there.tokens_per_s is not None:
        effect.rated += 1
        effect.tokens_per_s += here.tokens_per_s
        effect.tokens_per_s_replayed += there.tokens_per_s


def _reproduces(replayed: Decision, written: Decision) -> bool:
    """The same words and numbers. Whether the engine then took a change is no part of deciding."""
    if (replayed.status in CARRIED_OUT) != (written.status in CARRIED_OUT):
        return False
    return all(getattr(replayed, name) == getattr(written, name) for name in _SAME)


_SAME = ("mode", "policy", "old", "wanted", "requested", "reason", "sentence", "guards")
