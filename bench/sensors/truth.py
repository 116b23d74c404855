"""The exact figures of known samples, and how far an estimate from a histogram is from them.

Values in, values out. Never here: drawing samples, scraping.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass

from domain.histogram import Histogram

P99 = 0.99
_NOISE = 1e-12
"""Shares are floats: what is less apart than this is equal."""


@dataclass(frozen=True, slots=True)
class Error:
    """One estimate beside the truth. Seconds; shares are 0..1."""

    samples: int
    p99_s: float
    """Exact, by nearest rank."""
    estimate_s: float
    beyond: bool
    """The exact P99 lies above the highest finite bound: the estimate can then only say "at least"."""
    bucket_s: float
    """Width of the bucket that the exact P99 lies in; infinite beyond the highest bound."""
    saturated: bool
    """The histogram says that its P99 lies beyond its bounds."""
    over: float
    """Exact share above the objective's bound."""
    over_estimate: float

    @property
    def relative(self) -> float:
        return abs(self.estimate_s - self.p99_s) / self.p99_s

    @property
    def of_bucket(self) -> float:
        """The error as share of the bucket's width."""
        return abs(self.estimate_s - self.p99_s) / self.bucket_s

    @property
    def over_abs(self) -> float:
        error = abs(self.over_estimate - self.over)
        return 0.0 if error < _NOISE else error


def compare(samples_s: Sequence[float], histogram: Histogram, bound_s: float) -> Error | None:
    """`histogram` was made of exactly these samples; None where it holds none or another number of them."""
    estimate_s, over_estimate = histogram.quantile(P99), histogram.fraction_above(bound_s)
    if estimate_s is None or over_estimate is None or histogram.samples != len(samples_s):
        return None
    ordered = sorted(samples_s)
    exact_s = ordered[max(0, math.ceil(P99 * len(ordered)) - 1)]
    low, high = bucket(histogram.bounds, exact_s)
    over = (len(ordered) - bisect.bisect_right(ordered, bound_s)) / len(ordered)
    return Error(
        len(ordered), exact_s, estimate_s, math.isinf(high), high - low, histogram.saturated(P99), over, over_estimate
    )


def bucket(bounds: Sequence[float], value_s: float) -> tuple[float, float]:
    """The bucket that holds the value: above the lower end, up to the upper one. The first begins at 0."""
    at = bisect.bisect_left(bounds, value_s)
    upper = bounds[at] if at < len(bounds) else math.inf
    return (bounds[at - 1] if at else 0.0), upper
