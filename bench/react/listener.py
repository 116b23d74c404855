"""The daemon as its users see it: its event stream, and an operator's hand on a knob.

Belongs here: those calls. Never: when they are made.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

from domain.knobs import MAX_NUM_SEQS

CALL_S = 10.0
OVERRIDE_S = 60.0
"""The shortest that the daemon takes; it is lifted at once."""


class Listener:
    """Listens from the beginning of the block to its end. Raises aiohttp's errors."""

    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url}/api/v1"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._waiting: list[tuple[Callable[[str, Mapping[str, Any]], bool], asyncio.Future[float]]] = []

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, connect=CALL_S)
        self._session = aiohttp.ClientSession(headers=self._headers, timeout=timeout, raise_for_status=True)
        self._stream = await self._session.get(f"{self._url}/events")
        self._task = asyncio.create_task(self._listen(), name="react-listener")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._stream.close()
        await self._session.close()

    async def until(self, event: Callable[[str, Mapping[str, Any]], bool], limit_s: float) -> float | None:
        """Unix time at which the first event of this kind came; None: not within `limit_s`."""
        came: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append((event, came))
        try:
            return await asyncio.wait_for(came, limit_s)
        except TimeoutError:
            return None

    async def give_back(self, cap: float) -> None:
        """The cap is `cap` again, and nobody holds it."""
        limit = aiohttp.ClientTimeout(total=CALL_S)
        body = {"values": {MAX_NUM_SEQS: cap}, "ttl_s": OVERRIDE_S, "comment": "the breach is over"}
        async with self._session.patch(f"{self._url}/knobs", json=body, timeout=limit):
            pass
        async with self._session.delete(f"{self._url}/knobs/{MAX_NUM_SEQS}/override", timeout=limit):
            pass

    async def _listen(self) -> None:
        kind = ""
        async for line in self._stream.content:
            if line.startswith(b"event: "):
                kind = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                self._take(kind, json.loads(line[6:]), time.time())

    def _take(self, kind: str, data: Mapping[str, Any], at_s: float) -> None:
        for event, came in self._waiting:
            if not came.done() and event(kind, data):
                came.set_result(at_s)
        self._waiting = [one for one in self._waiting if not one[1].done()]


def cut(kind: str, data: Mapping[str, Any]) -> bool:
    """The daemon has lowered the cap because an objective broke, and the engine reads it back."""
    return kind == "decision" and (data["knob"], data["status"], data["reason"]) == (
        MAX_NUM_SEQS,
        "applied",
        "shrink_inference_slo",
    )


def calm(cap: float) -> Callable[[str, Mapping[str, Any]], bool]:
    """A tick whose objective is measured and kept, under that cap."""

    def event(kind: str, data: Mapping[str, Any]) -> bool:
        if kind != "tick" or data["knobs"].get(MAX_NUM_SEQS) != cap or not data["objectives"]:
            return False
        return all(
            one["over_ratio"] is not None and one["over_ratio"] <= one["allowed_ratio"] for one in data["objectives"]
        )

    return event
