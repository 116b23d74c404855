"""A webhook's other end over real HTTP that behaves as a test says, and an outbox in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from alerts.delivery import Deliveries
from alerts.settings import AlertsSettings
from domain.incident import Delivery, DeliveryStatus, Notification
from tests.told import NOON, incident
from tests.virtual_time import VirtualClock


def told(number: int, receiver: str = "ops", group: str = "g", **changes: Any) -> Notification:
    """The notification `n-NUMBER` of one incident of that group."""
    one = incident(labels={"number": str(number), "group": group}, **changes)
    return Notification(f"n-{number}", receiver, group, {"group": group}, (one,), NOON)


def settings(**receivers: dict[str, Any]) -> AlertsSettings:
    """Webhooks, unless they say otherwise."""
    return AlertsSettings.model_validate(
        {"receivers": {name: {"kind": "webhook", **one} for name, one in receivers.items()}}
    )


@dataclass
class Kept:
    """An outbox that keeps what it is told."""

    kept: dict[str, Delivery] = field(default_factory=dict)
    marked: list[str] = field(default_factory=list)
    """uids in the order in which they were waited for."""

    def note(self, deliveries: Sequence[Delivery]) -> None:
        self.kept.update((one.notification.uid, one) for one in deliveries)

    async def mark(self, delivery: Delivery) -> None:
        self.note([delivery])
        self.marked.append(delivery.notification.uid)

    def uids(self, status: DeliveryStatus) -> list[str]:
        return [uid for uid, one in self.kept.items() if one.status is status]


@dataclass
class Listener:
    """`answer` says status and headers of the next answer; every request waits for `open`."""

    clock: VirtualClock
    answer: Callable[[str], tuple[int, dict[str, str]]] = lambda _: (200, {})
    got: list[tuple[float, str]] = field(default_factory=list)
    """When, and which."""
    taken: list[str] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of the latest request."""
    url: str = ""

    async def _handle(self, request: web.Request) -> web.Response:
        uid = request.headers.get("Idempotency-Key", "")
        self.got.append((self.clock.s, uid))
        self.headers = request.headers
        self.arrived.set()
        await self.open.wait()
        status, headers = self.answer(uid)
        if status < 300:
            self.taken.append(uid)
        return web.Response(status=status, headers=headers)


@asynccontextmanager
async def listening(clock: VirtualClock) -> AsyncIterator[Listener]:
    """A listener that takes everything."""
    listener = Listener(clock)
    listener.open.set()
    app = web.Application()
    app.router.add_post("/{tail:.*}", listener._handle)
    server = TestServer(app)
    await server.start_server()
    listener.url = str(server.make_url("/hook"))
    try:
        yield listener
    finally:
        listener.open.set()
        await server.close()


@asynccontextmanager
async def started(deliveries: Deliveries) -> AsyncIterator[Deliveries]:
    """Started, and stopped in the end."""
    deliveries.start()
    try:
        yield deliveries
    finally:
        await deliveries.stop(5.0)
