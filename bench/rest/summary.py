"""From what was timed to the figures. Values in, values out; measuring never belongs here."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.footprint.process import Sample

LOOKS = 5
"""Memory at one end of a stretch is the median of so many looks, a second apart."""
LEAST_S = 30.0
"""In less, growth is the noise of a page here and there."""
GOAL_GROWTH_MB_PER_MIN = 0.5
"""More than without requests: at 500 a second 17 bytes a request. Python keeps nothing in less: its smallest object has
16, and what names it 8.
"""


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick as the streams told it: `at_s` is the Unix time at which the daemon began it."""

    number: int
    at_s: float
    received: int
    """Streams that got it."""


@dataclass(frozen=True, slots=True)
class Looks:
    """At the daemon's process: without requests, with them, without."""

    before: Sequence[Sample]
    during: Sequence[Sample]
    after: Sequence[Sample]


def rank(values: Iterable[float], q: float) -> float | None:
    """A quantile by nearest rank; None without values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)] if ordered else None


def lateness_ms(ticks: Sequence[Tick], tick_s: float) -> dict[int, float]:
    """How late each tick began, by number: the daemon's schedule is a grid of `tick_s`, and the tick that began
    earliest beside it lies on it.
    """
    if not ticks:
        return {}
    first_s = ticks[0].at_s
    beside = {tick.number: (tick.at_s - first_s + tick_s / 2) % tick_s - tick_s / 2 for tick in ticks}
    earliest = min(beside.values())
    return {number: 1000.0 * (late_s - earliest) for number, late_s in beside.items()}


def missed(ticks: Sequence[Tick], tick_s: float) -> int:
    """Ticks that the schedule had between the first and the last and that did not come."""
    return round((ticks[-1].at_s - ticks[0].at_s) / tick_s) + 1 - len(ticks) if ticks else 0


def growth_mb_per_min(samples: Sequence[Sample]) -> float | None:
    """From the first looks to the last; None for a stretch too short to tell."""
    if len(samples) < 2 * LOOKS or samples[-1].at_s - samples[0].at_s < LEAST_S:
        return None
    (from_s, begin), (to_s, end) = _median(samples[:LOOKS]), _median(samples[-LOOKS:])
    return 60.0 * (end - begin) / (to_s - from_s)


def _median(samples: Sequence[Sample]) -> tuple[float, float]:
    """(time, memory)"""
    return statistics.median(one.at_s for one in samples), statistics.median(one.rss_mb for one in samples)


def by_minute(samples: Sequence[Sample]) -> list[float]:
    """Memory in each minute, the median of its looks."""
    minutes: dict[int, list[float]] = {}
    for one in samples:
        minutes.setdefault(int((one.at_s - samples[0].at_s) // 60), []).append(one.rss_mb)
    return [round(statistics.median(looks), 2) for looks in minutes.values()]


def of_answers(
    answers: Sequence[tuple[float, float]], causes: Mapping[str, int], measure_s: float
) -> dict[str, object]:
    """`answers`: how late each was sent, and how long after it was due its answer had come, ms."""
    late, took = [one[0] for one in answers], [one[1] for one in answers]
    errors = sum(causes.values())
    return {
        "p99_ms": _round(rank(took, 0.99)),
        "p50_ms": _round(rank(took, 0.5)),
        "worst_ms": _round(max(took, default=None)),
        "p99_from_sent_ms": _round(rank([took_ms - late_ms for late_ms, took_ms in answers], 0.99)),
        "sent_late_p99_ms": _round(rank(late, 0.99)),
        "rps": round(len(answers) / measure_s, 1),
        "requests": len(answers) + errors,
        "errors": errors,
        "causes": dict(causes),
    }


def of_ticks(ticks: Sequence[Tick], tick_s: float, moments_s: tuple[float, float, float]) -> dict[str, object]:
    """`moments_s`: Unix times of the first request, of the begin and the end of the measurement. Ticks before the first
    request are the quiet ones.
    """
    requests_from_s, from_s, until_s = moments_s
    late = lateness_ms(ticks, tick_s)
    busy = [tick for tick in ticks if from_s <= tick.at_s < until_s]
    before = [late[tick.number] for tick in ticks if tick.at_s < requests_from_s]
    during = [late[tick.number] for tick in busy]
    return {
        "tick_jitter_ms": _round(max(during, default=None)),
        "tick_jitter_p95_ms": _round(rank(during, 0.95)),
        "quiet_tick_jitter_ms": _round(max(before, default=None)),
        "ticks": len(busy),
        "ticks_missed": missed(busy, tick_s),
    }


def of_process(looks: Looks) -> dict[str, object]:
    """What requests cost: CPU, and what memory grows by more than in the time before and after them, on the mean of
    which the filling of the daemon's windows cancels out.
    """
    first, last = looks.during[0], looks.during[-1]
    growth, *quiet = map(growth_mb_per_min, (looks.during, looks.before, looks.after))
    known = [one for one in quiet if one is not None]
    more = None if growth is None or len(known) < len(quiet) else growth - statistics.mean(known)
    return {
        "rss_mb": round(max(sample.rss_mb for sample in looks.during), 1),
        "rss_mb_by_minute": by_minute(looks.during),
        "rss_growth_mb_per_min": _round(growth),
        "quiet_rss_growth_mb_per_min": [_round(one) for one in quiet],
        "more_rss_growth_mb_per_min": _round(more),
        "goal_more_rss_growth_mb_per_min": GOAL_GROWTH_MB_PER_MIN,
        "cpu_share": round((last.cpu_s - first.cpu_s) / (last.at_s - first.at_s), 3),
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
