"""Time as the senders see it.

Belongs here: reading it and waiting, in one place, so that tests can have a time of their own. Never: what is waited
for.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for what has to hold over a restart, monotonic seconds for the rest."""

    def now(self) -> datetime:
        """UTC."""

    def monotonic_s(self) -> float:
        """Never steps."""

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        """Until `event` is set, or so many seconds (None: however long)."""


class SystemClock:
    """The machine's."""

    def now(self) -> datetime:
        """UTC."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Never steps."""
        return time.monotonic()

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        """Until `event` is set, or so many seconds (None: however long)."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
