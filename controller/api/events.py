"""GET /api/v1/events: what happens, as server-sent events.

A stream that is taken slowly is cut off: by the ring that goes on without it, or by a write that takes too long.
Belongs here: the wire format, the pulse, the bounds. Never: what is told (controller/operations/publishing.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from functools import lru_cache

from aiohttp import web

from controller.api.models.stream import MOST_ID, EventsAsked
from controller.api.problem import Problem
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.events import Event, EventKind, Events
from controller.operations.refusal import Kind

MEDIA = "text/event-stream"
PULSE_S = 15.0
"""A stream without news shows so often that it is alive; proxies close what is silent for a minute."""
WRITE_S = 10.0
"""A listener that takes nothing for so long is cut off."""
RETRY_MS = 2000
"""When a browser comes again."""
FULL_S = 5
NOW_S = 0.05
"""What is kept is there at once."""


class Streams:
    """The open streams, and how many there may be."""

    def __init__(self, events: Events, most: int) -> None:
        self._events = events
        self._most = most
        self._open = 0

    async def answer(self, call: Call[EventsAsked, None]) -> web.StreamResponse:
        """One stream, until the daemon stops, the listener goes or is too slow."""
        if self._open >= self._most:
            reason = f"{self._open} event streams are open, and api.streams = {self._most}"
            headers = {"Retry-After": str(FULL_S)}
            raise Problem(503, "open an event stream", reason, "close some, or raise api.streams", headers=headers)
        self._open += 1
        try:
            return await self._stream(call)
        finally:
            self._open -= 1

    async def _stream(self, call: Call[EventsAsked, None]) -> web.StreamResponse:
        asked, events = call.asked, self._events
        after = _header(call.request) or asked.last_event_id
        kinds = {*asked.kind, EventKind.GAP} if asked.kind else {*EventKind}
        if after is None and not asked.follow:
            after, kinds = f"{events.life}-0", kinds - {EventKind.GAP}
        from_here = events.last_id
        response = web.StreamResponse(headers={"Content-Type": MEDIA, "X-Accel-Buffering": "no"})
        try:
            await response.prepare(call.request)
            begin = "" if after else f"id: {from_here}\n"
            await _write(response, f"retry: {RETRY_MS}\n{begin}\n".encode())
            await self._tell(response, call.request, kinds, after or from_here, follow=asked.follow)
            await response.write_eof()
        except (TimeoutError, ConnectionError):
            if (transport := call.request.transport) is not None:
                transport.abort()  # what it did not take is not waited for
        return response

    async def _tell(
        self, response: web.StreamResponse, request: web.Request, kinds: set[EventKind], after: str, *, follow: bool
    ) -> None:
        """What comes after that; without `follow` until there is no more at this moment."""
        place = None
        async with aclosing(self._events.listen(after, PULSE_S if follow else NOW_S)) as source:
            async for event in source:
                if _gone(request):
                    return
                if event is not None:
                    place = event.id
                    if event.kind in kinds:
                        await _write(response, _frame(event))
                elif follow:
                    await _write(response, _alive(place))
                else:
                    return


def _alive(place: str | None) -> bytes:
    """What was left out counts as seen, or a resume would find a gap where there is none."""
    return b": alive\n\n" if place is None else f": alive\nid: {place}\n\n".encode()


@lru_cache(8)
def _frame(event: Event) -> bytes:
    """Made once for all streams, which take it at the same time."""
    return f"id: {event.id}\nevent: {event.kind}\ndata: {event.text}\n\n".encode()


async def _write(response: web.StreamResponse, text: bytes) -> None:
    """Raises TimeoutError, ConnectionError."""
    async with asyncio.timeout(WRITE_S):
        await response.write(text)


def _header(request: web.Request) -> str | None:
    after = request.headers.get("Last-Event-ID")
    if after is not None and len(after) > MOST_ID:
        reason = f"Last-Event-ID is longer than {MOST_ID} characters"
        raise Problem(400, "open an event stream", reason, "send the id of an event", "Last-Event-ID")
    return after


def _gone(request: web.Request) -> bool:
    transport = request.transport
    return transport is None or transport.is_closing()


def event_routes(operations: Operations, most: int) -> Iterator[Route]:
    """The rows of the table; `most` streams at a time."""
    yield Route(
        "GET",
        "/api/v1/events",
        Access.READ,
        Streams(operations.events, most).answer,
        "what happens, as it happens",
        asked=EventsAsked,
        problems=(Kind.UNAVAILABLE,),
        media=(MEDIA,),
    )
