"""Which failed requests count: all but those that a recorded limit turned away and those that a restart cut off.

Belongs here: that judgement, values in and values out. Never: sending, reading the history.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bench.load import RequestRecord
from domain.decision import Decision, Status
from domain.knobs import MAX_NUM_QUEUED_REQS

Span = tuple[float, float]
"""Monotonic seconds, both ends included."""

RELEASE_GRACE_S = 3.0
"""An API process asks once a second what is in force: so long a limit may outlive its release."""
KEPT_FAILURES = 100_000
SHOWN_FAILURES = 20


@dataclass(slots=True)
class Ledger:
    """Takes every finished request in, from all loads of a run."""

    ok: int = 0
    failures: list[RequestRecord] = field(default_factory=list)
    """Never more than KEPT_FAILURES; `lost` counts the rest, which count as failed."""
    lost: int = 0
    _ok_by_second: Counter[int] = field(default_factory=Counter)

    def take(self, record: RequestRecord) -> None:
        """One finished request."""
        if record.ok:
            self.ok += 1
            self._ok_by_second[int(record.end_s)] += 1
        elif len(self.failures) < KEPT_FAILURES:
            self.failures.append(record)
        else:
            self.lost += 1

    def requests_per_s(self, now_s: float, over_s: int) -> float:
        """Good answers a second in the last `over_s` whole seconds."""
        return sum(self._ok_by_second[int(now_s) - back] for back in range(1, over_s + 1)) / over_s


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the requests. `failed` is what must be zero; `causes` says why, of those alone."""

    ok: int
    failed: int
    shed: int
    restart: int
    causes: dict[str, int]
    failures: tuple[RequestRecord, ...] = ()
    """The first few of those that failed."""


def account(ledger: Ledger, restarts: Sequence[Span], limits: Sequence[Span]) -> Account:
    """Judge every failure: during a restart of the engine, turned away by a limit in force, or failed."""
    shed = restart = 0
    causes: Counter[str] = Counter()
    failures: list[RequestRecord] = []
    for record in ledger.failures:
        if _is_shed(record, limits):
            shed += 1
        elif any(record.start_s <= end and record.end_s >= begin for begin, end in restarts):
            restart += 1
        else:
            causes[record.cause or "unknown"] += 1
            failures.append(record)
    if ledger.lost:
        causes[f"more than {KEPT_FAILURES} failures, these were not looked at"] = ledger.lost
    return Account(ledger.ok, causes.total(), shed, restart, dict(causes), tuple(failures[:SHOWN_FAILURES]))


def _is_shed(record: RequestRecord, limits: Sequence[Span]) -> bool:
    turned_away = record.status == 503 and record.retry_after is not None
    return turned_away and any(begin <= record.end_s <= end for begin, end in limits)


def limits_in_force(
    decisions: Iterable[Decision], ended_s: Sequence[float], monotonic_of: Callable[[Decision], float]
) -> list[Span]:
    """When the history says that a limit on the queue was in force.

    `decisions` oldest first; `ended_s` are the moments at which the engine was stopped, and its limit with it.
    """
    spans: list[Span] = []
    since_s: float | None = None
    for decision in decisions:
        if decision.knob != MAX_NUM_QUEUED_REQS or decision.status is not Status.APPLIED:
            continue
        at_s = monotonic_of(decision)
        limited = decision.observed is not None and math.isfinite(decision.observed)
        stopped_s = None if since_s is None else min((s for s in ended_s if since_s <= s <= at_s), default=None)
        if since_s is not None and (stopped_s is not None or not limited):
            spans.append((since_s, at_s + RELEASE_GRACE_S if stopped_s is None else stopped_s))
            since_s = None
        if limited and since_s is None:
            since_s = at_s
    if since_s is not None:
        spans.append((since_s, min((s for s in ended_s if s >= since_s), default=math.inf)))
    return spans
