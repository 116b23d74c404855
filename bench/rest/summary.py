"""From what was timed to the figures. Values in, values out; measuring never belongs here."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.footprint.process import Sample

LOOKS = 5
"""Memory at one end of the measurement is the median of so many looks, a second apart."""


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick as the streams told it: `at_s` is the Unix time at which the daemon began it."""

    number: int
    at_s: float
    received: int
    """Streams that got it."""


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


def growth_mb(samples: Sequence[Sample]) -> float | None:
    """Memory at the end less that at the begin; None for a run too short to tell them apart."""
    if len(samples) < 2 * LOOKS:
        return None
    begin = statistics.median(sample.rss_mb for sample in samples[:LOOKS])
    return statistics.median(sample.rss_mb for sample in samples[-LOOKS:]) - begin


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


def of_process(samples: Sequence[Sample]) -> dict[str, object]:
    """Of the daemon while it was measured; needs two samples."""
    first, last = samples[0], samples[-1]
    return {
        "rss_mb": round(max(sample.rss_mb for sample in samples), 1),
        "rss_growth_mb": _round(growth_mb(samples)),
        "cpu_share": round((last.cpu_s - first.cpu_s) / (last.at_s - first.at_s), 3),
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
