"""The device's sense of time, real or virtual. Reading and passing time belong here; what takes how long never does."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the executor needs from a clock."""

    def now_s(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""

    def sleep_until(self, moment_s: float) -> None:
        """Returns once ``now_s()`` is at least ``moment_s``."""


class RealClock:
    """The machine's monotonic clock: a step takes as long as it would on the emulated GPU."""

    def now_s(self) -> float:
        return time.monotonic()

    def sleep_until(self, moment_s: float) -> None:
        while (left_s := moment_s - time.monotonic()) > 0:
            time.sleep(left_s)


class VirtualClock:
    """A clock that only moves when told to: a sleep returns at once and the time has passed.

    vLLM's own time stamps (arrival, queue time, statistics) stay on the machine's clock; measure on this one.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now_s(self) -> float:
        return self._now_s

    def sleep_until(self, moment_s: float) -> None:
        self._now_s = max(self._now_s, moment_s)

    def advance(self, duration_s: float) -> None:
        """Lets ``duration_s`` seconds pass, for instance until the next arrival. Raises ``ValueError`` below 0."""
        if duration_s < 0:
            raise ValueError(f"cannot advance a clock by {duration_s} s: time does not go back")
        self._now_s += duration_s


class WorkClock:
    """What this process works, in seconds from ``start`` on, and what it would have slept, which passes at once.

    Other work on the machine takes no time on it, so a busy machine measures as an idle one does. Before ``start`` it
    stands at 0: making an engine takes no time. Only for one thread at a time.
    """

    def __init__(self) -> None:
        self._zero_s: float | None = None
        self._slept_s = 0.0

    def start(self) -> None:
        """Time passes from now on."""
        self._zero_s = time.process_time()

    def now_s(self) -> float:
        return 0.0 if self._zero_s is None else time.process_time() - self._zero_s + self._slept_s

    def sleep_until(self, moment_s: float) -> None:
        self._slept_s += max(0.0, moment_s - self.now_s())
