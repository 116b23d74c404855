"""Slow trends: the swing of the request rate, the slope of P99, the swing of BAR1.

Belongs here: coarse samples over minutes. A knob that moves does not start them afresh. Never: short windows.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence

from controller.estimation.windows import largest, ratio
from domain.histogram import Histogram
from domain.readings.gpu import GpuReading

SAMPLE_S = 10.0
SWING_S = 300.0
LEAST_S = 60.0
"""A swing is unknown before that much of its time is covered."""
SLOPE_S = 60.0
SLOPE_SAMPLES = 100
"""Fewer than that have no 99th percentile."""
SLOPE_QUANTILE = 0.99

AgedValues = Sequence[tuple[float, float]]
"""(age in seconds, value)"""


class Swing:
    """Highest and lowest of a value over five minutes, from one span of values for each ten seconds."""

    def __init__(self) -> None:
        self._spans: deque[tuple[float, float, float]] = deque()

    def take(self, now_s: float, value: float) -> None:
        """A value now."""
        if self._spans and now_s - self._spans[-1][0] < SAMPLE_S:
            at_s, low, high = self._spans.pop()
            self._spans.append((at_s, min(low, value), max(high, value)))
        else:
            self._spans.append((now_s, value, value))
        self._expire(now_s)

    def fill(self, now_s: float, values: AgedValues) -> None:
        """What was before the first value of its own."""
        first_s = self._spans[0][0] if self._spans else math.inf
        known = [(now_s - age_s, value, value) for age_s, value in values if now_s - age_s < first_s]
        self._spans.extendleft(sorted(known, reverse=True))
        self._expire(now_s)

    def width(self, now_s: float) -> float | None:
        """Highest less lowest."""
        self._expire(now_s)
        if not self._spans or now_s - self._spans[0][0] < LEAST_S:
            return None
        return max(high for _, _, high in self._spans) - min(low for _, low, _ in self._spans)

    def mean(self) -> float | None:
        """Mean of the middles."""
        return sum((low + high) / 2 for _, low, high in self._spans) / len(self._spans) if self._spans else None

    def _expire(self, now_s: float) -> None:
        while self._spans and now_s - self._spans[0][0] > SWING_S:
            self._spans.popleft()


class RateSwing:
    """(Highest - lowest) / mean of the request rate's ten-second means."""

    def __init__(self) -> None:
        self._swing = Swing()
        self._since: tuple[float, float] | None = None

    def take(self, now_s: float, finished: float | None, goes_on: bool) -> None:
        """The counter now; `goes_on` False: it cannot be compared with the one before."""
        if finished is None or self._since is None or not goes_on:
            self._since = None if finished is None else (now_s, finished)
            return
        since_s, before = self._since
        if now_s - since_s >= SAMPLE_S:
            self._swing.take(now_s, (finished - before) / (now_s - since_s))
            self._since = (now_s, finished)

    def fill(self, now_s: float, values: AgedValues) -> None:
        """Rates from before."""
        self._swing.fill(now_s, values)

    def ratio(self, now_s: float) -> float | None:
        """None in the first minute and without requests."""
        return ratio(self._swing.width(now_s), self._swing.mean())


class Slope:
    """P99 of the last minute over that of the minute before, less 1."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, Histogram]] = deque()
        self._value: float | None = None
        self._filled: tuple[float, float] | None = None

    def take(self, now_s: float, e2e: Histogram | None, goes_on: bool) -> None:
        """The histogram now; `goes_on` False: it cannot be compared with the one before."""
        if e2e is None or not goes_on:
            self._points.clear()
            self._value = None
        if e2e is None or (self._points and now_s - self._points[-1][0] < SAMPLE_S):
            return
        self._points.append((now_s, e2e))
        while len(self._points) > 1 and self._points[1][0] <= now_s - 2 * SLOPE_S:
            self._points.popleft()
        self._value = self._rise(now_s, e2e)

    def fill(self, now_s: float, values: AgedValues) -> None:
        """Its own value from before: good for a minute, the span that it speaks of."""
        youngest = min(values, default=None)
        if youngest is not None:
            self._filled = (now_s - youngest[0], youngest[1])

    def ratio(self, now_s: float) -> float | None:
        """None without two minutes of enough requests."""
        if self._value is None and self._filled is not None and now_s - self._filled[0] <= SLOPE_S:
            return self._filled[1]
        return self._value

    def _rise(self, now_s: float, e2e: Histogram) -> float | None:
        between = self._at(now_s - SLOPE_S)
        start = self._at(now_s - 2 * SLOPE_S)
        if between is None or start is None:
            return None
        late, early = e2e.since(between), between.since(start)
        if late is None or early is None or min(late.samples, early.samples) < SLOPE_SAMPLES:
            return None
        if early.saturated(SLOPE_QUANTILE):
            return None  # it was at least the last bound: any rise could hide in that
        rise = ratio(late.quantile(SLOPE_QUANTILE), early.quantile(SLOPE_QUANTILE))
        return None if rise is None else rise - 1.0

    def _at(self, at_s: float) -> Histogram | None:
        """The newest point at or before that time."""
        return next((histogram for point_s, histogram in reversed(self._points) if point_s <= at_s), None)


class Bar1Swing:
    """(Highest - lowest) BAR1 use of its total, of the card that swings most; by UUID, so that cards never mix."""

    def __init__(self) -> None:
        self._cards: dict[str, Swing] = {}
        self._present: frozenset[str] = frozenset()
        self._filled: list[tuple[float, float]] = []

    def take(self, now_s: float, devices: Iterable[GpuReading]) -> None:
        """The devices now; a card that is gone is left out until it comes back."""
        uses = {d.card_uuid: use for d in devices if (use := ratio(d.bar1_used_bytes, d.bar1_total_bytes)) is not None}
        self._present = frozenset(uses)
        for uuid, use in uses.items():
            swing = self._cards.setdefault(uuid, Swing())
            swing.take(now_s, use)
            if len(uses) == 1:
                swing.fill(now_s, [(now_s - at_s, value) for at_s, value in self._filled])
        if uses:
            self._filled = []

    def fill(self, now_s: float, values: AgedValues) -> None:
        """BAR1 use of the fullest card: it tells nothing apart where there are several, and is then left out."""
        self._filled = [(now_s - age_s, value) for age_s, value in values]

    def ratio(self, now_s: float) -> float | None:
        """None in the first minute and without BAR1."""
        return largest(*(self._cards[uuid].width(now_s) for uuid in self._present))
