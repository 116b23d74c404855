"""What happens, as it happens: the last events, numbered, for any number of listeners.

A listener holds a place in one shared ring, so that it costs nothing while nothing comes and publishing takes as long
for two hundred as for none; one that is so slow that its place has been written over is cut off. Belongs here: the
ring. Never: what is worth telling (publishing.py), HTTP.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import uuid4

KEPT = 200
"""So many events can be resumed from: some three minutes at one tick a second. One of a tick is several kilobytes."""

WOKEN_AT_ONCE = 20
"""Listeners: between them the event loop looks for what else there is to do, so that two hundred hold nobody up."""


class EventKind(StrEnum):
    """What an event tells; its data is in docs/rest.md."""

    TICK = "tick"
    """A summary of each tick: signals, knobs, mode."""
    DECISION = "decision"
    """A decision that was news: carried out or tried, or a hold for a new reason."""
    OUTCOME = "outcome"
    """A change was judged."""
    ALERT = "alert"
    """An alert began to fire, or is over."""
    MODE = "mode"
    """Another mode is in force."""
    OVERRIDE = "override"
    """An operator's override began, was lifted or ran out."""
    POLICY = "policy"
    """An operator changed a policy's parameters."""
    ROLLBACK = "rollback"
    """A rollback began, is being undone, is over."""
    SOURCE = "source"
    """A source stopped giving readings, or gives some again."""
    ENGINE = "engine"
    """Another boot of the engine was met, or it no longer answers."""
    PROBLEM = "problem"
    """The list of problems that `status` shows is another."""
    ACTION = "action"
    """An entry of the audit: a change that somebody asked for, a reload of the settings among them."""
    GAP = "gap"
    """The first of a subscription whose place is not in the ring any more: read the present state again."""


@dataclass(frozen=True, slots=True)
class Event:
    """`id` is what a listener resumes from: it names the daemon's life and the event's number in it."""

    id: str
    number: int
    kind: EventKind
    text: str
    """What it tells, as one line of JSON: made once for all listeners, and all that is kept of it."""

    @property
    def data(self) -> Mapping[str, Any]:
        """What it tells."""
        told: Mapping[str, Any] = json.loads(self.text)
        return told


class Events:
    """One for the daemon's life. All methods belong to the event loop's thread; `publish` never waits."""

    def __init__(self, kept: int = KEPT) -> None:
        self.life = uuid4().hex[:8]
        """Begins each event's id: after a restart the numbers begin anew."""
        self._ring: deque[Event] = deque(maxlen=kept)
        self._last = 0
        self._closed = False
        self._waiting: list[asyncio.Future[bool]] = []
        self.listeners = 0

    @property
    def last_id(self) -> str:
        """What to resume from in order to get what comes from now on."""
        return f"{self.life}-{self._last}"

    def publish(self, kind: EventKind, data: Mapping[str, Any]) -> Event:
        """Tell everybody. `data` holds what JSON can say; no limit is written "no limit"."""
        self._last += 1
        event = self._event(self._last, kind, data)
        self._ring.append(event)
        self._wake()
        return event

    def close(self) -> None:
        """The daemon stops: every subscription ends."""
        self._closed = True
        self._wake()

    async def listen(self, last_id: str | None = None, silent_s: float = math.inf) -> AsyncGenerator[Event | None]:
        """Events from now on, or after `last_id`; the iteration ends when the daemon stops, or when the listener
        was too slow. Where `last_id` is of another life or too old, a GAP comes first and then what is kept. None each
        time that nothing has come for `silent_s`.
        """
        place, gap = self._place(last_id)
        self.listeners += 1
        try:
            if gap:
                yield self._event(place, EventKind.GAP, {"asked": last_id})
            while not self._closed:
                if place < self._oldest - 1:
                    return  # written over: the listener is cut off, and may come again
                if place < self._last:
                    event = self._ring[place + 1 - self._oldest]
                    place = event.number
                    yield event
                elif not await self._news(silent_s):
                    yield None
        finally:
            self.listeners -= 1

    async def _news(self, within_s: float) -> bool:
        """Wait for what comes next; False where nothing does."""
        loop = asyncio.get_running_loop()
        news: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(news)
        if math.isinf(within_s):
            return await news
        silence = loop.call_later(within_s, _answer, news, False)
        try:
            return await news
        finally:
            silence.cancel()

    @property
    def _oldest(self) -> int:
        return self._last - len(self._ring) + 1

    def _place(self, last_id: str | None) -> tuple[int, bool]:
        """The number of the last event that the listener has, and whether some were missed."""
        if last_id is None:
            return self._last, False
        life, _, number = last_id.rpartition("-")
        known = life == self.life and number.isascii() and number.isdecimal() and len(number) < 16
        if known and self._oldest - 1 <= int(number) <= self._last:
            return int(number), False
        return self._oldest - 1, True

    def _event(self, number: int, kind: EventKind, data: Mapping[str, Any]) -> Event:
        text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        return Event(f"{self.life}-{number}", number, kind, text)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        _wake(waiting)


def _wake(waiting: list[asyncio.Future[bool]]) -> None:
    for news in waiting[:WOKEN_AT_ONCE]:
        _answer(news, True)
    if later := waiting[WOKEN_AT_ONCE:]:
        asyncio.get_running_loop().call_soon(_wake, later)


def _answer(news: asyncio.Future[bool], came: bool) -> None:
    if not news.done():  # its listener may have gone
        news.set_result(came)
