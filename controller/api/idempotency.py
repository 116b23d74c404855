"""Idempotency-Key: a change that is sent twice is made once.

Only what was done is kept: a refusal changed nothing, so the same request may be tried again. The keys are the
daemon's life's. Belongs here: remembering answers by key. Never: what a request does.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from controller.api.problem import Problem

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY = r"^[!-~]{1,255}$"
KEPT_S = 24 * 3600.0
MOST_KEYS = 1000
MOST_BYTES = 8 * 1024 * 1024
"""Of all answers that are kept."""
KEPT_HEADERS = ("Content-Type", "ETag")


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def again(self) -> web.Response:
        return web.Response(status=self.status, body=self.body, headers={**self.headers, REPLAYED: "true"})


@dataclass(frozen=True, slots=True)
class _Entry:
    fingerprint: bytes
    at_s: float
    answer: asyncio.Future[_Answer | None]
    """None: it was refused."""


class Remembered:
    """One for the daemon's life."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0

    async def once(
        self, key: str | None, request: bytes, do: Callable[[], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Do it, or answer as the first request with this key was answered. `request` is all that tells one request
        from another. Raises Problem for a key that was used for another.
        """
        if key is None:
            return await do()
        if re.fullmatch(KEY, key) is None:
            remedy = "send 1 to 255 visible ASCII characters, as a UUID"
            raise Problem(400, "understand the request", f"{HEADER} cannot be used", remedy, field=HEADER)
        fingerprint = hashlib.sha256(request).digest()
        while (entry := self._known(key)) is not None:
            if entry.fingerprint != fingerprint:
                reason = f"this {HEADER} was used for another request"
                raise Problem(422, "take this call", reason, "make a new key for each change", field=HEADER)
            if (answer := await asyncio.shield(entry.answer)) is not None:
                return answer.again()
        return await self._first(key, fingerprint, do)

    async def _first(
        self, key: str, fingerprint: bytes, do: Callable[[], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        entry = _Entry(fingerprint, self._clock(), asyncio.get_running_loop().create_future())
        self._entries[key] = entry
        answer = None
        try:
            response = await do()
            if response.status < 300 and isinstance(response, web.Response) and isinstance(response.body, bytes):
                headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
                answer = _Answer(response.status, headers, response.body)
        finally:
            entry.answer.set_result(answer)
            self._settle(key, entry, answer)
        return response

    def _known(self, key: str) -> _Entry | None:
        oldest_s = self._clock() - KEPT_S
        while self._entries and next(iter(self._entries.values())).at_s < oldest_s:
            self._drop(next(iter(self._entries)))
        return self._entries.get(key)

    def _settle(self, key: str, entry: _Entry, answer: _Answer | None) -> None:
        if self._entries.get(key) is not entry:
            return  # given up meanwhile, for want of room
        if answer is None:
            del self._entries[key]
            return
        self._bytes += len(answer.body)
        while len(self._entries) > MOST_KEYS or self._bytes > MOST_BYTES:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key)
        kept = entry.answer.result() if entry.answer.done() else None
        self._bytes -= 0 if kept is None else len(kept.body)
