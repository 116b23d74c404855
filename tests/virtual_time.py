"""Time for senders that goes on when all of them wait for it, and never while one is at work over a real socket."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.told import NOON
from tests.waiting import PATIENCE_S


@dataclass(eq=False)
class _Sleeper:
    until_s: float
    event: asyncio.Event
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def waits(self) -> bool:
        return not (self.over.is_set() or self.event.is_set())


class VirtualClock:
    """Begins at `at`. `parties` tasks live by it: it goes on when so many wait."""

    def __init__(self, parties: int = 1, at: datetime = NOON) -> None:
        self.parties = parties
        self.s = 0.0
        self._at = at
        self._sleepers: list[_Sleeper] = []
        self._arrived = asyncio.Event()

    def now(self) -> datetime:
        return self._at + timedelta(seconds=self.s)

    def monotonic_s(self) -> float:
        return self.s

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        sleeper = _Sleeper(self.s + (math.inf if seconds is None else seconds), event)
        self._sleepers.append(sleeper)
        self._arrived.set()
        waits = [asyncio.ensure_future(one.wait()) for one in (event, sleeper.over)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._sleepers.remove(sleeper)
            for one in waits:
                one.cancel()

    async def settle(self) -> None:
        """Until all that can be done at this moment is done."""
        async with asyncio.timeout(PATIENCE_S):
            while sum(sleeper.waits for sleeper in self._sleepers) < self.parties:
                self._arrived.clear()
                await self._arrived.wait()

    async def go_on(self, until_s: float = math.inf) -> bool:
        """To the next moment that somebody waits for, or to `until_s`; False when nobody waits for one before that."""
        await self.settle()
        next_s = min(sleeper.until_s for sleeper in self._sleepers if sleeper.waits)
        if next_s > until_s or next_s == math.inf:
            return False
        self.s = next_s
        for sleeper in self._sleepers:
            if sleeper.until_s <= next_s:
                sleeper.over.set()
        return True

    async def pass_s(self, seconds: float) -> None:
        """Live through so many seconds, and through all that is done at their end."""
        until_s = self.s + seconds
        while await self.go_on(until_s):
            pass
        self.s = until_s
        await self.settle()
