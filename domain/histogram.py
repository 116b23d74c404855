"""Cumulative histograms as Prometheus exposes them, and what can honestly be read from the difference of two.

Belongs here: bucket arithmetic. Never: metric names, scraping, windows in time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise


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
        if any(delta < 0 for delta in deltas):
            return None
        monotonic: list[float] = []
        for delta in deltas:
            monotonic.append(max(delta, monotonic[-1] if monotonic else 0.0))
        return Histogram(self.bounds, tuple(monotonic), self.total - earlier.total)

    def quantile(self, q: float) -> float | None:
        """Linear interpolation inside a bucket, as PromQL's histogram_quantile does. None without samples.

        A quantile that lands in the +Inf bucket answers the highest finite bound: it is at least that.
        """
        if self.samples <= 0:
            return None
        rank = q * self.samples
        lower_bound, lower_count = 0.0, 0.0
        for bound, count in zip(self.bounds, self.counts, strict=True):
            if count >= rank:
                if math.isinf(bound):
                    return self.bounds[-2] if len(self.bounds) > 1 else None
                width = count - lower_count
                share = (rank - lower_count) / width if width > 0 else 1.0
                return lower_bound + (bound - lower_bound) * share
            lower_bound, lower_count = bound, count
        return None

    def fraction_above(self, value: float) -> float | None:
        """Share of samples above `value`; exact when a bound lies on it, else interpolated. None without samples."""
        if self.samples <= 0:
            return None
        points = [(0.0, 0.0), *zip(self.bounds, self.counts, strict=True)]
        for (lower_bound, lower_count), (bound, count) in pairwise(points):
            if value <= bound:
                if value == bound or math.isinf(bound):
                    below = count if value == bound else lower_count
                else:
                    below = lower_count + (count - lower_count) * (value - lower_bound) / (bound - lower_bound)
                return 1.0 - below / self.samples
        return 0.0
