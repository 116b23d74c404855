"""The senders of all receivers: one worker each, so that one that hangs keeps up no other.

Belongs here: starting and ending them, and giving each what is for it. Never: sending (alerts/worker.py), what is told
when (alerts/dispatch.py), SQL.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Container, Iterable, Mapping, Sequence
from dataclasses import replace

import aiohttp

from alerts.clock import Clock, SystemClock
from alerts.outbox import Outbox
from alerts.posting import Reply, new_session, post
from alerts.receivers import Answer, Receiver, Request, build
from alerts.settings import AlertsSettings
from alerts.worker import Again, ReceiverState, Worker
from domain.incident import Delivery, DeliveryStatus, Notification

logger = logging.getLogger(__name__)


def _nothing(_receiver: str) -> Sequence[Notification]:
    return ()


class Deliveries:
    """Build it, hand over what a run before left behind (`restore`), then `start`. All methods belong to one loop."""

    def __init__(
        self, settings: AlertsSettings, outbox: Outbox, clock: Clock | None = None, again: Again = _nothing
    ) -> None:
        """`again` is asked, while a receiver is idle that has to hear it again and again, for all that is still true.

        Raises SettingsError where a receiver's template is wrong.
        """
        self._outbox = outbox
        self._clock = clock or SystemClock()
        self._again = again
        self._session: aiohttp.ClientSession | None = None
        self._workers: dict[str, Worker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self.apply(settings)

    def restore(self, due: Iterable[Delivery]) -> None:
        """What the outbox holds and nobody was told yet, oldest first."""
        self._add(due)

    def start(self) -> None:
        """Begin to send."""
        self._session = new_session()
        for name in self._workers:
            self._begin(name)

    def put(
        self,
        notifications: Iterable[Notification],
        stored: Awaitable[object] | None = None,
        over: Container[str] = (),
    ) -> None:
        """Hand over, each to its receiver; takes microseconds each. None is sent before `stored` is done: once they
        are in the outbox, or after the moment for which that is waited for. It must not raise. One whose uid is then in
        `over` is not sent: a run before told it.
        """
        future = None if stored is None else asyncio.ensure_future(stored)
        self._add((Delivery(one) for one in notifications), future, over)

    def _add(
        self,
        deliveries: Iterable[Delivery],
        stored: asyncio.Future[object] | None = None,
        over: Container[str] = (),
    ) -> None:
        by_receiver: dict[str, list[Delivery]] = defaultdict(list)
        for delivery in deliveries:
            by_receiver[delivery.notification.receiver].append(delivery)
        for name, several in by_receiver.items():
            if name in self._workers:
                self._workers[name].add(several, stored, over)
            else:
                failed = [replace(one, status=DeliveryStatus.FAILED, error=_gone(name)) for one in several]
                self._outbox.note(failed)

    def keep_again(self) -> None:
        """What waits goes into the outbox once more: the one that it was in is no more."""
        for worker in self._workers.values():
            worker.keep_again()

    def apply(self, settings: AlertsSettings) -> None:
        """Go on with these receivers. What waits for one that is no more is given up; what waits for one that changed
        is tried at once. Raises SettingsError, and then nothing has changed.
        """
        receivers = {
            name: build(name, one, settings.external_url) for name, one in settings.receivers.items()
        }  # all, before any is used
        for name in self._workers.keys() - receivers.keys():
            self._leave(name)
        for name, receiver in receivers.items():
            self._use(name, receiver, settings)

    def _use(self, name: str, receiver: Receiver, settings: AlertsSettings) -> None:
        own = settings.receivers[name]
        if name in self._workers:
            self._workers[name].use(receiver, own)
            return
        self._workers[name] = Worker(receiver, own, self._post, self._outbox, self._clock)
        if self._session is not None:
            self._begin(name)

    def _begin(self, name: str) -> None:
        self._tasks[name] = asyncio.create_task(self._workers[name].run(self._again), name=f"alerts-to-{name}")

    def _leave(self, name: str) -> None:
        worker, task = self._workers.pop(name), self._tasks.pop(name, None)
        worker.end()
        if task is None:
            worker.give_up(_gone(name))
            return
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        task.add_done_callback(lambda _: worker.give_up(_gone(name)))

    async def attempt(self, notification: Notification) -> Answer:
        """Tell it at once and once, past all that waits and without the outbox: to try a receiver out.

        Raises KeyError when there is no such receiver.
        """
        return await self._workers[notification.receiver].attempt(notification)

    def states(self) -> Mapping[str, ReceiverState]:
        """How each receiver fares, by name. No system call."""
        return {name: worker.state() for name, worker in self._workers.items()}

    async def stop(self, timeout_s: float) -> None:
        """Let attempts that are being made end, within that time. What waits stays in the outbox."""
        for worker in self._workers.values():
            worker.end()
        tasks = {*self._tasks.values(), *self._leaving}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=timeout_s)
            for task in late:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    logger.error("alerts: a sender ended: %r", result)
        self._tasks.clear()
        if self._session is not None:
            await self._session.close()

    async def _post(self, request: Request, timeout_s: float) -> Reply:
        if self._session is None:
            raise OSError("nothing is sent before the start")
        return await post(self._session, request, timeout_s)


def _gone(name: str) -> str:
    return f"cannot deliver to {name}: there is no such receiver any more; name it again in alerts.receivers"
