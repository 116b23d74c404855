"""Which snapshot showed each breach first, and how long the change took from there. Values in, values out.

Belongs here: the pairing and the figures. Never: provoking, reading the history.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from domain.view import View
from policies.verdict import judge

STEADY_S = 0.1
"""What the goal allows beyond one tick and one step."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One that was provoked. Unix times; `ended_s` is when the change was applied or, without one, given up."""

    provoked_s: float
    ended_s: float
    answered: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """One recorded tick: when its snapshot began, whether it passes the gate, the time between two tokens in it."""

    at_s: float
    passes: bool
    step_s: float | None


def seen(at_s: float, view: View) -> Seen:
    """The gate is the policies' own judgement of evidence, asked apart from them."""
    verdicts = [judge(view, slo) for slo in view.slos]
    passes = any(one.breached and one.queue_bound is False for one in verdicts)
    latencies = [view.latencies.get(one.slo.latency) for one in verdicts]
    return Seen(at_s, passes, next((one.quantile(0.5) for one in latencies if one is not None), None))


def summarise(breaches: Sequence[Breach], ticks: Sequence[Seen], tick_s: float) -> dict[str, Any]:
    """The figures; None where nothing was timed. A breach that had no change took at least until it was given up, and
    is among them as such; a load that broke nothing, or a change that no snapshot asked for, is only counted.
    """
    took_s, whole_s, steps_s, unanswered, unseen = [], [], list[float](), 0, 0
    for breach in breaches:
        first = next((t for t in ticks if t.passes and breach.provoked_s <= t.at_s <= breach.ended_s), None)
        if first is None:
            unseen += 1
            continue
        unanswered += not breach.answered
        took_s.append(breach.ended_s - first.at_s)
        whole_s.append(breach.ended_s - breach.provoked_s)
        if first.step_s is not None:
            steps_s.append(first.step_s)
    step_s = rank(steps_s, 0.5)
    return {
        "breach_to_applied_s_p50": rounded(rank(took_s, 0.5)),
        "breach_to_applied_s_p99": rounded(rank(took_s, 0.99)),
        "breach_to_applied_s_max": rounded(max(took_s, default=None)),
        "n": len(took_s),
        "provoked": len(breaches),
        "unanswered": unanswered,
        "unseen": unseen,
        "load_to_applied_s_p50": rounded(rank(whole_s, 0.5)),
        "load_to_applied_s_p99": rounded(rank(whole_s, 0.99)),
        "tick_s": tick_s,
        "step_s": rounded(step_s),
        "goal_s": None if step_s is None else rounded(tick_s + step_s + STEADY_S),
    }


def rank(values: Sequence[float], q: float) -> float | None:
    """The quantile by nearest rank; None of nothing."""
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)] if values else None


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
