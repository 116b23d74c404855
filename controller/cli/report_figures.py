"""What a stretch of the history adds up to: what was wanted, what withheld it, what it would have gained.

Belongs here: adding up. Never: how it looks, queries.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from controller.history.view_codec import Frame
from domain.decision import Decision, Status
from domain.outcome import Verdict
from domain.slo import Latency
from domain.view import View
from policies.forecast import Forecast, forecast
from store.history import StoredDecision

LONGEST_TICK_S = 60.0
"""A longer gap between two recorded ticks is one: nobody watched."""


_NO_WISH = (Status.HOLD, Status.NOTED)


@dataclass(slots=True)
class Wishes:
    """Changes of one knob that one policy wanted."""

    policy: str
    knob: str
    times: int = 0
    applied: int = 0
    lasted_s: float = 0.0
    """How long they were wanted and not in force."""
    lowest: float | None = None
    highest: float | None = None
    reasons: Counter[str] = field(default_factory=Counter)
    withheld: Counter[str] = field(default_factory=Counter)
    """By the guard's sentence without its numbers."""

    def take(self, decision: Decision) -> None:
        """Count one."""
        wanted = decision.wanted
        if wanted is None:
            return
        self.times += 1
        self.applied += decision.status is Status.APPLIED
        self.lowest = wanted if self.lowest is None else min(self.lowest, wanted)
        self.highest = wanted if self.highest is None else max(self.highest, wanted)
        self.reasons[decision.reason.value] += 1
        self.withheld.update(_kind(note) for note in decision.guards if note.startswith("withheld"))


@dataclass(frozen=True, slots=True)
class Wish:
    """A value that was wanted and not in force, from one moment to another."""

    knob: str
    wanted: float
    begin: datetime
    end: datetime


@dataclass(slots=True)
class Gain:
    """Predictions for one knob, over the time that a wish for it was open. Sums are over `known_s`."""

    knob: str
    open_s: float = 0.0
    known_s: float = 0.0
    unknown_s: dict[str, float] = field(default_factory=dict)
    """By why there is no prediction."""
    tokens: float = 0.0
    """Predicted at the values in force."""
    tokens_wanted: float = 0.0
    step_s_s: float = 0.0
    step_s_s_wanted: float = 0.0

    @property
    def throughput_ratio(self) -> float | None:
        """Predicted tokens at the wanted values over those at the values in force, less 1."""
        return self.tokens_wanted / self.tokens - 1 if self.tokens > 0 else None

    def step_s(self, *, wanted: bool) -> float | None:
        """Predicted seconds of a step, mean over the time that is known."""
        total = self.step_s_s_wanted if wanted else self.step_s_s
        return total / self.known_s if self.known_s > 0 else None


@dataclass(slots=True)
class Watched:
    """What the recording says of the stretch itself."""

    seconds: float = 0.0
    busy_s: float = 0.0
    """Something ran."""
    short_s: float = 0.0
    """Something waited for room."""
    requests: float = 0.0
    over: dict[Latency, list[float]] = field(default_factory=dict)
    """By latency with an objective: samples over the bound, samples, allowed share."""
    model_s: float = 0.0
    """Seconds in which the model could be held against what was measured."""
    model_error_s: float = 0.0
    """Sum of |predicted / measured tokens a second - 1| over them."""


@dataclass(slots=True)
class Report:
    """All of it."""

    since: datetime
    until: datetime
    began: datetime | None
    """The first decision of the stretch; None: there is none."""
    modes: Counter[str]
    wishes: list[Wishes]
    verdicts: dict[tuple[str, str], Counter[str]]
    """By policy and knob."""
    undone: int
    gains: dict[str, Gain]
    watched: Watched


def begin(since: datetime, until: datetime, decisions: Sequence[StoredDecision]) -> tuple[Report, list[Wish]]:
    """What the decisions say, and the wishes to hold the recording against."""
    rows = [row.decision for row in decisions]
    grouped: dict[tuple[str, str], Wishes] = {}
    verdicts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for one in rows:
        key = one.policy, one.knob
        if _is_wish(one):
            grouped.setdefault(key, Wishes(*key)).take(one)
        if one.outcome is not None:
            verdicts[key][one.outcome.verdict.value] += 1
    spans = list(_open_wishes(decisions, until))
    for decision, wish in spans:
        grouped[decision.policy, decision.knob].lasted_s += (wish.end - wish.begin).total_seconds()
    report = Report(
        since=since,
        until=until,
        began=min((one.at for one in rows), default=None),
        modes=Counter(one.mode.value for one in rows),
        wishes=sorted(grouped.values(), key=lambda w: -w.lasted_s),
        verdicts=dict(verdicts),
        undone=sum(one.outcome is not None and one.outcome.undo for one in rows),
        gains={wish.knob: Gain(wish.knob) for _, wish in spans},
        watched=Watched(),
    )
    return report, [wish for _, wish in spans]


def _is_wish(decision: Decision) -> bool:
    return decision.wanted is not None and decision.wanted != decision.old and decision.status not in _NO_WISH


def _open_wishes(rows: Sequence[StoredDecision], until: datetime) -> Iterable[tuple[Decision, Wish]]:
    """A wish that was not carried out lasts until the next word on its knob, or the run's end."""
    following: dict[str, tuple[datetime, int | None]] = {}
    last_of_run: dict[int | None, datetime] = {}
    for row in reversed(rows):
        one = row.decision
        ends = last_of_run.setdefault(row.run_id, until if not last_of_run else one.at)
        end, run_id = following.get(one.knob, (ends, row.run_id))
        if _is_wish(one) and one.status is not Status.APPLIED and one.wanted is not None:
            yield one, Wish(one.knob, one.wanted, one.at, max(one.at, end if run_id == row.run_id else ends))
        following[one.knob] = (one.at, row.run_id)


def _kind(note: str) -> str:
    """A guard's sentence without its numbers and without what follows them."""
    return re.sub(r"-?\d[\d.,]*", "…", note.removeprefix("withheld: "))


class Reader:
    """Takes the recording in, tick by tick in order."""

    def __init__(self, report: Report, wishes: Iterable[Wish]) -> None:
        self._report = report
        self._wishes = sorted(wishes, key=lambda wish: wish.begin)
        self._open: list[Wish] = []
        self._before: datetime | None = None

    def take(self, frame: Frame) -> None:
        """One recorded tick."""
        seconds = (frame.at - self._before).total_seconds() if self._before is not None else 0.0
        self._before = frame.at
        if not 0 < seconds <= LONGEST_TICK_S:
            return
        self._watch(frame.view, seconds)
        while self._wishes and self._wishes[0].begin <= frame.at:
            self._open.append(self._wishes.pop(0))
        self._open = [wish for wish in self._open if wish.end > frame.at]
        for wish in self._open:
            _predict(self._report.gains[wish.knob], frame.view, wish, seconds)

    def _watch(self, view: View, seconds: float) -> None:
        watched = self._report.watched
        watched.seconds += seconds
        watched.busy_s += seconds if view.running else 0.0
        watched.short_s += seconds if view.demand else 0.0
        finished = view.completed.get(Latency.E2E)
        watched.requests += finished.samples if finished is not None else 0.0
        for slo in view.slos:
            histogram = view.completed.get(slo.latency)
            share = histogram.fraction_above(slo.bound_s) if histogram is not None else None
            if histogram is not None and share is not None:
                sums = watched.over.setdefault(slo.latency, [0.0, 0.0, slo.allowed_ratio])
                sums[0] += share * histogram.samples
                sums[1] += histogram.samples
        predicted = _now(view, "max_num_seqs")
        measured = view.generation_tokens_per_s
        if isinstance(predicted, Forecast) and predicted.tokens_per_s is not None and measured:
            watched.model_s += seconds
            watched.model_error_s += seconds * abs(predicted.tokens_per_s / measured - 1)


def _predict(gain: Gain, view: View, wish: Wish, seconds: float) -> None:
    gain.open_s += seconds
    now, then = _now(view, wish.knob), forecast(view, wish.knob, wish.wanted)
    if isinstance(now, str) or isinstance(then, str):
        why = now if isinstance(now, str) else str(then)
        gain.unknown_s[why] = gain.unknown_s.get(why, 0.0) + seconds
        return
    gain.known_s += seconds
    gain.step_s_s += seconds * now.step_s
    gain.step_s_s_wanted += seconds * then.step_s
    if now.tokens_per_s is not None and then.tokens_per_s is not None:
        gain.tokens += seconds * now.tokens_per_s
        gain.tokens_wanted += seconds * then.tokens_per_s


def _now(view: View, knob: str) -> Forecast | str:
    """The prediction for the value in force."""
    in_force = view.runtime.knob(knob) if view.runtime is not None else None
    if in_force is None or in_force.value is None:
        return f"{knob} was not known"
    return forecast(view, knob, in_force.value)


def verdict_counts(counts: Counter[str]) -> dict[str, int]:
    """In the order of the verdicts."""
    return {verdict.value: counts[verdict.value] for verdict in Verdict}
