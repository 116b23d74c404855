"""The time that a stop may take, shared by all that has to end.

Belongs here: the deadline, and cutting off what does not end. Never: what is stopped, in which order (app.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)


class Ending:
    """One for a daemon's stop. `begin` starts the clock; before that nothing is short of time."""

    def __init__(self, total_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._total_s = total_s
        self._clock = clock
        self._until_s: float | None = None

    def begin(self) -> None:
        """The stop was asked for. Asked twice, the first counts."""
        if self._until_s is None:
            self._until_s = self._clock() + self._total_s

    def left_s(self, least_s: float = 0.0) -> float:
        """What is left of it, never less than `least_s`."""
        if self._until_s is None:
            return self._total_s
        return max(least_s, self._until_s - self._clock())

    async def within(self, most_s: float, what: str, end: Callable[[], Awaitable[object]]) -> None:
        """Let something end, for `most_s` at most; past that it is cut off, and the rest goes on ending."""
        try:
            async with asyncio.timeout(most_s):
                await end()
        except TimeoutError:
            logger.warning("stopping: %s did not end within %.1f s and is cut off", what, most_s)
