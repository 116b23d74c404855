"""What became of each request of a step, and the step's figures.

A request belongs to the step in which it was due, whenever it ends. Belongs here: counting, quantiles, whether a limit
is met. Never: what comes of that (stepped.py), clocks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from loadtest.answer import Answer
from loadtest.plan import ERRORS, LATE, P99, Limits, Step

ENOUGH = 100
"""A step is cut short on so many requests; with fewer it is judged at its end."""
LATE_S = 0.5
"""Requests that leave so much after they were due (P99) were not offered at the rate that was meant."""
UNSENT = "not sent: too many unanswered"
UNANSWERED = "unanswered at the end"


@dataclass(slots=True)
class Account:
    """One step. Seconds; answers are timed from when their request was due."""

    step: Step
    due: int = 0
    took_s: list[float] = field(default_factory=list)
    """Of the good answers."""
    first_s: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)
    open_due_s: dict[int, float] = field(default_factory=dict)
    """When each request without an end was due, by its number."""
    lasted_s: float = 0.0
    memory_peak_ratio: float | None = None
    """None: not known."""

    def begin(self, due_s: float, sent_s: float) -> int:
        """A request leaves; answers its number."""
        self.due += 1
        self.late_s.append(max(0.0, sent_s - due_s))
        self.open_due_s[self.due] = due_s
        return self.due

    def refuse(self) -> None:
        """A request was due and could not be sent."""
        self.due += 1
        self.causes[UNSENT] += 1

    def end(self, number: int, answer: Answer) -> None:
        """Its answer, good or not; one that was given up before is not counted twice."""
        if self.open_due_s.pop(number, None) is None:
            return
        if answer.cause is not None:
            self.causes[answer.cause] += 1
            return
        self.took_s.append(answer.took_s)
        self.gaps_s += answer.gaps_s
        if answer.first_s is not None:
            self.first_s.append(answer.first_s)

    def give_up(self) -> None:
        """Whoever has no answer yet gets none."""
        if self.open_due_s:
            self.causes[UNANSWERED] += len(self.open_due_s)
            self.open_due_s.clear()

    @property
    def failed(self) -> int:
        return self.causes.total()

    @property
    def error_ratio(self) -> float | None:
        """Of those that ended; None before the first."""
        ended = self.failed + len(self.took_s)
        return self.failed / ended if ended else None

    def p99_s(self, now_s: float | None = None, over_s: float = math.inf) -> float | None:
        """Of good answers; with `now_s` also of those still out for longer than `over_s`, which will take longer yet:
        a server that stands still completes nothing.
        """
        out = [] if now_s is None else [now_s - due for due in self.open_due_s.values() if now_s - due > over_s]
        return rank(sorted([*self.took_s, *out]), 0.99)

    def met(self, limits: Limits, now_s: float, *, at_end: bool) -> str | None:
        """Which limit is met, with the figure, or None."""
        known = self.failed + len(self.took_s)
        if not at_end and known < ENOUGH and self.due < ENOUGH:
            return None
        late_s = rank(sorted(self.late_s), 0.99)
        if late_s is not None and late_s > LATE_S:
            return f"{LATE}: requests left {late_s:.2f} s after they were due (P99)"
        errors, p99_s = self.error_ratio, self.p99_s(now_s, limits.p99_s)
        if errors is not None and errors > limits.error_ratio and (at_end or known >= ENOUGH):
            worst = self.causes.most_common(1)[0][0]
            return f"{ERRORS}: {errors:.1%} of {known} (limit {limits.error_ratio:.1%}), most often {worst}"
        if p99_s is not None and p99_s > limits.p99_s:
            return f"{P99}: {p99_s:.2f} s (limit {limits.p99_s:g} s)"
        return None

    def figures(self) -> dict[str, Any]:
        """Plain values for the report; None where nothing is known."""
        return {
            "phase": self.step.phase,
            "qps": self.step.qps,
            "seconds": round(self.lasted_s, 1),
            "offered": self.due,
            "ok": len(self.took_s),
            "failed": self.failed,
            "error_ratio": rounded(self.error_ratio),
            "ok_per_s": rounded(len(self.took_s) / self.lasted_s if self.lasted_s else None, 2),
            "p50_s": rounded(rank(sorted(self.took_s), 0.5)),
            "p99_s": rounded(self.p99_s()),
            "p99_ttft_s": rounded(rank(sorted(self.first_s), 0.99)),
            "p99_itl_s": rounded(rank(sorted(self.gaps_s), 0.99)),
            "p99_late_s": rounded(rank(sorted(self.late_s), 0.99)),
            "memory_peak_ratio": rounded(self.memory_peak_ratio),
            "causes": dict(self.causes),
        }


def rank(ordered: Sequence[float], q: float) -> float | None:
    """The quantile by nearest rank; None of nothing."""
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)] if ordered else None


def rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)
