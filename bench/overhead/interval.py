"""Means of paired measurements and how far they can be trusted. Arithmetic alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: Student's t, two-sided 95 %, by degrees of freedom from 1; past the end the last one is used: the safe side.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % interval; the interval is None with fewer than two values."""

    mean: float
    low: float | None
    high: float | None
    n: int

    def to_json(self, digits: int) -> dict[str, float | int | None]:
        """Plain types only."""
        low = None if self.low is None else round(self.low, digits)
        high = None if self.high is None else round(self.high, digits)
        return {"mean": round(self.mean, digits), "low95": low, "high95": high, "n": self.n}


def of(values: Sequence[float]) -> Interval:
    """The mean of some values and where it may lie, by Student's t. Raises ``ValueError`` without a value."""
    if not values:
        raise ValueError("cannot take the mean of no values")
    mean, n = statistics.fmean(values), len(values)
    if n < 2:
        return Interval(mean, None, None, n)
    half = _T95[min(n - 1, len(_T95)) - 1] * statistics.stdev(values) / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, n)


def of_ratios(ratios: Sequence[float]) -> Interval:
    """The same for ratios, on their logarithms, so that 2 and 1/2 are equally far from 1."""
    logs = of([math.log(ratio) for ratio in ratios])
    low = None if logs.low is None else math.exp(logs.low)
    high = None if logs.high is None else math.exp(logs.high)
    return Interval(math.exp(logs.mean), low, high, logs.n)
