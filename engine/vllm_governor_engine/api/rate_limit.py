"""How often the routes may be called.

Here: token buckets on a clock that is passed in. Never here: who the caller is, or the answer 429.

There are two: one for callers who may call, and a small one for attempts that may not. They are apart, so that a flood
of wrong tokens cannot keep the daemon out. They are per API process, not per address: behind a proxy all share one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

Clock = Callable[[], float]


class Bucket:
    """`burst` calls at once, `per_s` on average."""

    def __init__(self, per_s: float, burst: int, clock: Clock = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._left = float(burst)
        self._at = clock()

    def take(self) -> int:
        """0 when the call may go on; else the whole seconds after which one may."""
        now = self._clock()
        self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._per_s)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return 0
        return math.ceil((1 - self._left) / self._per_s)


class Limits:
    """The buckets of one API process."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.calls = Bucket(50, 100, clock)
        self.refused = Bucket(2, 20, clock)
