"""Cumulative histograms as Prometheus exposes them, and what can honestly be read from the difference of two.

Belongs here: bucket arithmetic. Never: metric names, scraping, windows in time.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bucket upper bounds `le` (ascending, the last is +Inf) and the cumulative count at each; `total` is `_sum`."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    total: float

    @property
    def samples(self) -> float:
        return self.counts[-1] if self.counts else 0.0

    @property
    def mean(self) -> float | None:
        return self.total / self.samples if self.samples > 0 else None

    def since(self, earlier: Histogram) -> Histogram | None:
        """What was observed after `earlier`; None when a bucket went down (the engine restarted) or the bounds
        differ.
        """
        if self.bounds != earlier.bounds:
            return None
        deltas = [now - before for now, before in zip(self.counts, earlier.counts, strict=True)]
        if deltas and min(deltas) < 0:
            return None
        # The buckets of a scrape are not read at one instant, so a later one may lag: the counts stay cumulative.
        return Histogram(self.bounds, tuple(accumulate(deltas, max)), self.total - earlier.total)

    def add(self, other: Histogram) -> Histogram | None:
        """Both together, as over two engines; None when the bounds differ."""
        if self.bounds != other.bounds:
            return None
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return Histogram(self.bounds, counts, self.total + other.total)

    def bucket(self, q: float) -> tuple[float, float] | None:
        """Lower and upper bound of the bucket that holds the quantile; its width is what a quantile can be off by."""
        index = self._index(q)
        return None if index is None else self._edges(index)

    def saturated(self, q: float) -> bool:
        """Whether the quantile lies past the last finite bound, so that only a least value is known."""
        index = self._index(q)
        return index is not None and math.isinf(self.bounds[index])

    def quantile(self, q: float) -> float | None:
        """Linear interpolation inside a bucket, as PromQL's histogram_quantile does. None without samples.

        A quantile that lands in the +Inf bucket answers the highest finite bound: it is at least that (`saturated`).
        """
        index = self._index(q)
        if index is None:
            return None
        lower, upper = self._edges(index)
        if math.isinf(upper):
            return lower if index else None
        below = self.counts[index - 1] if index else 0.0
        width = self.counts[index] - below
        share = (q * self.samples - below) / width if width > 0 else 1.0
        return lower + (upper - lower) * share

    def fraction_above(self, value: float) -> float | None:
        """Share of samples above `value`; exact when a bound lies on it, else interpolated. None without samples.

        Past the last finite bound it is the share that lies surely above that bound: the most that may be above.
        """
        if self.samples <= 0:
            return None
        index = bisect_left(self.bounds, value)
        if index == len(self.bounds):
            return 0.0
        below = self.counts[index - 1] if index else 0.0
        lower, upper = self._edges(index)
        if value == upper:
            below = self.counts[index]
        elif not math.isinf(upper):
            below += (self.counts[index] - below) * max(value - lower, 0.0) / (upper - lower)
        return 1.0 - below / self.samples

    def _index(self, q: float) -> int | None:
        return None if self.samples <= 0 else bisect_left(self.counts, q * self.samples)

    def _edges(self, index: int) -> tuple[float, float]:
        return (self.bounds[index - 1] if index else 0.0), self.bounds[index]
