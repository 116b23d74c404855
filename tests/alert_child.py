"""The alerts' part of a daemon, in a process of its own that is killed at any moment: writer, outbox, sender."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import count
from multiprocessing.connection import Connection

from alerts.delivery import Deliveries
from alerts.posting import Reply
from alerts.receivers import Request
from alerts.settings import AlertsSettings
from domain.incident import Delivery
from store.database import database_url
from store.outbox import WriterOutbox
from store.writer import Writer
from store.writes import SaveAlerts
from tests.listener import told
from tests.told import NOON
from tests.virtual_time import VirtualClock

NODE = "crashing"
EVERY_S = 20.0
"""A notification becomes due."""


class Life:
    """Ends by SIGKILL at the moment of that number; None: not by itself."""

    def __init__(self, ends_at: int | None) -> None:
        self._ends_at = ends_at
        self._moments = count(1)

    def moment(self) -> None:
        if next(self._moments) == self._ends_at:
            os.kill(os.getpid(), signal.SIGKILL)


class MortalOutbox(WriterOutbox):
    """Dies before, while or after something is kept."""

    def __init__(self, writer: Writer, life: Life) -> None:
        super().__init__(writer, 10.0)
        self._life = life

    def note(self, deliveries: Sequence[Delivery]) -> None:
        super().note(deliveries)
        self._life.moment()

    async def mark(self, delivery: Delivery) -> None:
        self._life.moment()
        kept = asyncio.ensure_future(super().mark(delivery))
        await asyncio.sleep(0)
        self._life.moment()
        await kept
        self._life.moment()


class MortalDeliveries(Deliveries):
    """Dies before a request or after its answer."""

    life: Life

    async def _post(self, request: Request, timeout_s: float) -> Reply:
        self.life.moment()
        reply = await super()._post(request, timeout_s)
        self.life.moment()
        return reply


def send(
    path: str, settings: dict[str, object], at: datetime, ends_at: int | None, number: int, up: Connection
) -> None:
    """Until `number` notifications are delivered, or it is killed. `at`: its time begins there."""
    asyncio.run(_send(path, AlertsSettings.model_validate(settings), at, Life(ends_at), number, up))


async def _send(path: str, settings: AlertsSettings, at: datetime, life: Life, number: int, up: Connection) -> None:
    clock = VirtualClock(2, at)
    writer = Writer(database_url(path), NODE)
    await writer.start()
    deliveries = MortalDeliveries(settings, MortalOutbox(writer, life), clock)
    deliveries.life = life
    deliveries.restore(await writer.run(lambda history: history.alerts.due(), 30.0))
    state = await writer.run(lambda history: history.alerts.state(), 30.0) or {"sequence": 0}
    deliveries.start()
    up.send_bytes(b"up")
    living = asyncio.create_task(_live(clock))
    for sequence in range(state["sequence"], number):
        await clock.wait(asyncio.Event(), EVERY_S)
        notification = told(sequence)
        save = SaveAlerts(clock.now(), notification.incidents, [notification], {"sequence": sequence + 1})
        life.moment()
        deliveries.put([notification], writer.settled(writer.put(save), 10.0))
        life.moment()
    while deliveries.states()["ops"].pending:
        await clock.wait(asyncio.Event(), EVERY_S)
    living.cancel()
    await deliveries.stop(5.0)
    await writer.stop(5.0)


async def _live(clock: VirtualClock) -> None:
    while await clock.go_on():
        pass


def moment_of(timestamp: int) -> datetime:
    """What a request of that timestamp says of the sender's time."""
    return NOON + timedelta(seconds=timestamp - NOON.timestamp())
