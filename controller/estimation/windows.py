"""The readings of one source over the last minute, and differences between two of them.

Belongs here: which two readings a window compares, and when it may not. Never: what a reading means.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

Signals = dict[str, float | None]
"""Values by their names in domain.view.SIGNALS."""

WINDOWS_S = (3.0, 10.0, 30.0, 60.0)
"""A latency is read over the shortest of these that holds enough samples, so that a busy engine is judged by what it
does now and a quiet one by all there is."""
RATE_WINDOW_S = 10.0
ENOUGH_SAMPLES = 500
STALE_TICKS = 3
SLOWEST_TICK_S = 60.0
"""A tick that lasted longer was more than a source's silence: the machine or the process stood still."""


@dataclass(frozen=True, slots=True)
class Window(Generic[T]):
    """Two readings of one source, `seconds` apart."""

    start: T
    end: T
    seconds: float

    def delta(self, counter: str) -> float | None:
        """What a counter gained; None when it is absent or went down."""
        before, after = getattr(self.start, counter), getattr(self.end, counter)
        return None if before is None or after is None or after < before else float(after - before)

    def rate(self, counter: str) -> float | None:
        """Gain a second."""
        gain = self.delta(counter)
        return None if gain is None else gain / self.seconds


class Track(Generic[T]):
    """Readings of one source. Nothing is compared over a gap: more than STALE_TICKS ticks without a reading."""

    def __init__(self, tick_s: float) -> None:
        self._tick_s = tick_s
        self._limit_s = STALE_TICKS * tick_s
        self._keep_s = WINDOWS_S[-1] + tick_s
        self._points: deque[tuple[float, T]] = deque()
        self._latest: tuple[float, T] | None = None

    def lengthen(self, by_s: float) -> None:
        """The tick before lasted that much longer, as it waited for some source: no gap in the others."""
        self._limit_s = STALE_TICKS * self._tick_s + min(by_s, SLOWEST_TICK_S)

    def add(self, now_s: float, reading: T) -> bool:
        """Take a reading in; False when it does not go on from the one before."""
        goes_on = self._latest is not None and now_s - self._latest[0] <= self._limit_s
        if not goes_on:
            self._points.clear()
        while self._points and now_s - self._points[0][0] > self._keep_s:
            self._points.popleft()
        self._latest = (now_s, reading)
        self._points.append(self._latest)
        return goes_on

    def onward(self, now_s: float, reading: T) -> Window[T] | None:
        """From the latest reading to one that is about to be added, whatever was restarted; None over a gap."""
        before = self.current(now_s)
        if before is None or self._latest is None or now_s <= self._latest[0]:
            return None
        return Window(before, reading, now_s - self._latest[0])

    def restart(self) -> None:
        """No window reaches back before this moment. The latest reading goes on to be what is now."""
        self._points.clear()

    def forget(self) -> None:
        """As if nothing had been read."""
        self._points.clear()
        self._latest = None

    def current(self, now_s: float) -> T | None:
        """The latest reading, None once it is older than STALE_TICKS ticks."""
        if self._latest is None or now_s - self._latest[0] > self._limit_s:
            return None
        return self._latest[1]

    def window(self, now_s: float, span_s: float) -> Window[T] | None:
        """The newest reading against the earliest of the last `span_s` seconds, or at long ticks the one before it."""
        if len(self._points) < 2 or self.current(now_s) is None:
            return None
        end_s, end = self._points[-1]
        start_s, start = next(point for point in self._points if point[0] >= now_s - span_s or point[0] == end_s)
        if start_s == end_s:
            start_s, start = self._points[-2]
        return Window(start, end, end_s - start_s) if end_s > start_s else None


def ratio(part: float | None, whole: float | None) -> float | None:
    """Part over whole; None when one is unknown or there is no whole."""
    return None if part is None or whole is None or whole <= 0 else part / whole


def largest(*values: float | None) -> float | None:
    """The largest known value."""
    return max((value for value in values if value is not None), default=None)
