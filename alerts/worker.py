"""One receiver's sender: what waits is sent in its order, one at a time, until it is taken or refused.

| what the receiver does | what is done |
| --- | --- |
| takes it | kept as delivered before the next is sent |
| refuses it (a plain 4xx, a code that says so) | kept as failed, with its words; the next is sent |
| is busy, down or silent until the deadline | tried again after a second, then less often; not before it says |
| takes others but not this one for an hour | kept as failed: what breaks it must not keep up all others |

Belongs here: that. Never: the other receivers (alerts/delivery.py), wire formats, what is told when.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import cast

import aiohttp
from tenacity import AsyncRetrying, Future, RetryCallState, retry_if_result, wait_exponential, wait_random_exponential

from alerts.backlog import Backlog, Entry
from alerts.clock import Clock
from alerts.outbox import Outbox
from alerts.posting import Reply
from alerts.receivers import Answer, Delivered, Receiver, Refused, Request, Retry
from alerts.settings import Kind, ReceiverSettings
from domain.errors import CannotSend
from domain.incident import Delivery, DeliveryStatus, Notification

logger = logging.getLogger(__name__)

FIRST_S, LONGEST_S = 1.0, 60.0
"""Between two attempts; half of it is chance, so that a fleet does not come back in step."""
LONGEST_NAMED_S = 3600.0
"""A moment that was kept before a restart counts for so long: the clock may have been set since."""
STUCK_S = 3600.0
Post = Callable[[Request, float], Awaitable[Reply]]
Again = Callable[[str], Sequence[Notification]]
"""By the receiver's name, all that is still true now, for a receiver that has to hear it again and again."""
_backoff = wait_exponential(FIRST_S / 2, max=LONGEST_S / 2) + wait_random_exponential(FIRST_S / 2, max=LONGEST_S / 2)


@dataclass(frozen=True, slots=True)
class ReceiverState:
    """How one receiver fares. Counts are since the daemon's start."""

    name: str
    kind: Kind
    pending: int = 0
    delivered: int = 0
    failed: int = 0
    """Refused, or given up for lack of room."""
    superseded: int = 0
    """Told by a newer notification of the same group, since too many waited."""
    attempts: int = 0
    last_success_at: datetime | None = None
    last_error: str | None = None
    """Of the latest attempt that was not taken."""
    last_error_at: datetime | None = None
    failing_s: float = 0.0
    """Since the first attempt that was not taken after the last one that was; 0: the latest was, or there was none."""
    next_attempt_at: datetime | None = None
    """None: it does not wait for one."""


class Ended(Exception):
    """Leaves the worker's loop between two attempts."""


class Worker:
    """All methods belong to the event loop. `run` is its one task."""

    def __init__(
        self, receiver: Receiver, settings: ReceiverSettings, post: Post, outbox: Outbox, clock: Clock
    ) -> None:
        self._receiver = receiver
        self._settings = settings
        self._post = post
        self._outbox = outbox
        self._clock = clock
        self._backlog = Backlog(receiver.name, settings.max_pending)
        self._woken = asyncio.Event()
        self._idle = self._ending = False
        self._failing_since_s: float | None = None
        self._again_s = clock.monotonic_s()
        self._state = ReceiverState(receiver.name, settings.kind)

    def add(
        self,
        deliveries: Sequence[Delivery],
        stored: asyncio.Future[object] | None = None,
        over: Container[str] = (),
    ) -> None:
        """To be sent after all others."""
        if changed := self._backlog.add(deliveries, stored, over):
            self._outbox.note(changed)
        if self._idle:
            self._woken.set()

    def use(self, receiver: Receiver, settings: ReceiverSettings) -> None:
        """Go on with these; where they are others at once, for whatever was wrong may be right now."""
        if settings != self._settings:
            self._woken.set()
        self._receiver, self._settings = receiver, settings
        self._state = replace(self._state, kind=settings.kind)
        if changed := self._backlog.resize(settings.max_pending):
            self._outbox.note(changed)

    def end(self) -> None:
        """`run` returns after the attempt that is being made."""
        self._ending = True
        self._woken.set()

    def give_up(self, why: str) -> None:
        """All that waits, after its end."""
        if given_up := self._backlog.clear(why):
            self._outbox.note(given_up)

    def keep_again(self) -> None:
        """All that waits is put into the outbox once more."""
        waiting = self._backlog.first(len(self._backlog))
        if again := [one.delivery for one in waiting if one.delivery.notification.uid not in one.over]:
            self._outbox.note(again)

    def state(self) -> ReceiverState:
        """How it fares now."""
        since_s = self._failing_since_s
        return replace(
            self._state,
            pending=len(self._backlog),
            failed=self._state.failed + self._backlog.crowded_out,
            superseded=self._backlog.superseded,
            failing_s=0.0 if since_s is None else self._clock.monotonic_s() - since_s,
        )

    async def run(self, again: Again) -> None:
        """Until `end`."""
        retrying = AsyncRetrying(
            sleep=self._pause, wait=_wait, retry=retry_if_result(_is_retry), before_sleep=self._note_retry
        )
        with contextlib.suppress(Ended):
            while not self._ending:
                try:
                    await self._turn(retrying, again)
                except Ended:
                    raise
                except Exception:  # what nobody foresaw must not end the telling
                    logger.exception("alerts: the sender to %s failed", self._receiver.name)
                    await self._pause(LONGEST_S)

    async def _turn(self, retrying: AsyncRetrying, again: Again) -> None:
        if not (entries := self._backlog.first()):
            await self._wait_for_more(again)
            return
        await self._ready(entries[0])
        if self._backlog.first() != entries:
            return  # it went meanwhile, for lack of room
        if entries[0].delivery.notification.uid in entries[0].over:
            self._backlog.done(entries[0])
            return
        await self._conclude(entries[0], await retrying(self._send, entries[0]))

    async def attempt(self, notification: Notification) -> Answer:
        """Once, whatever waits. Raises nothing."""
        receiver = self._receiver
        self._state = replace(self._state, attempts=self._state.attempts + 1)
        try:
            answer = await self._exchange(receiver, receiver.request(notification, self._clock.now()))
        except CannotSend as error:
            answer = Retry(str(error))
        except Exception as error:
            # Its words may hold a secret, and the same again would end the same.
            answer = Refused(f"cannot deliver to {receiver.name}: {type(error).__name__} in this program; report it")
        self._learn(answer)
        return answer

    async def _exchange(self, receiver: Receiver, request: Request) -> Answer:
        try:
            reply = await self._post(request, self._settings.timeout_s)
        except (aiohttp.ClientError, OSError, ValueError) as error:  # TimeoutError is an OSError
            return receiver.failed(error)
        return receiver.judge(*reply)

    async def _send(self, entry: Entry) -> Answer:
        self._backlog.begin(entry, self._clock.monotonic_s())
        self._state = replace(self._state, next_attempt_at=None)
        answer = await self.attempt(entry.delivery.notification)
        entry.delivery = replace(entry.delivery, attempts=entry.delivery.attempts + 1)
        return await self._unless_stuck(entry, answer) if isinstance(answer, Retry) else answer

    async def _unless_stuck(self, entry: Entry, answer: Retry) -> Answer:
        now_s, others = self._clock.monotonic_s(), self._backlog.first(2)[1:]
        if entry.begun_s is None or now_s - entry.begun_s < STUCK_S or not others or not _may_be_sent(others[0]):
            return answer
        self._backlog.begin(others[0], now_s)
        entry.begun_s = now_s  # if they are not taken either, it is the receiver, for another hour
        if not isinstance(passed := await self.attempt(others[0].delivery.notification), Delivered):
            return answer
        await self._conclude(others[0], passed)
        latest = await self.attempt(entry.delivery.notification)  # it may have come back in between
        return Refused(f"{latest.reason} (no more: others are taken)") if isinstance(latest, Retry) else latest

    async def _ready(self, entry: Entry) -> None:
        """It is in the outbox, or cannot be put there now; and the time that the receiver named has come."""
        if entry.stored is not None:
            await asyncio.wait({entry.stored})
        if entry.delivery.not_before is not None:
            left_s = (entry.delivery.not_before - self._clock.now()).total_seconds()
            if left_s > 0:
                await self._pause(min(left_s, LONGEST_NAMED_S))

    async def _conclude(self, entry: Entry, answer: Answer) -> None:
        taken = isinstance(answer, Delivered)
        entry.delivery = replace(
            entry.delivery,
            status=DeliveryStatus.DELIVERED if taken else DeliveryStatus.FAILED,
            not_before=None,
            delivered_at=self._clock.now() if taken else None,
            error=None if isinstance(answer, Delivered) else answer.reason,
        )
        delivered, failed = self._state.delivered + taken, self._state.failed + (not taken)
        self._state = replace(self._state, delivered=delivered, failed=failed)
        await self._outbox.mark(entry.delivery)
        self._backlog.done(entry)

    async def _wait_for_more(self, again: Again) -> None:
        """Idle. Meanwhile a receiver that asks for it is told what is still true; one that gets lost is made good by
        the next, and none can overtake a notification.
        """
        if self._settings.kind is not Kind.ALERTMANAGER:
            await self._pause(None)
            return
        if (left_s := self._again_s - self._clock.monotonic_s()) > 0:
            await self._pause(left_s)
            return
        self._again_s = self._clock.monotonic_s() + self._settings.resend_s
        for notification in again(self._receiver.name):
            if not isinstance(await self.attempt(notification), Delivered):
                break

    async def _pause(self, seconds: float | None) -> None:
        """Sleep, unless something changes meanwhile. Raises Ended."""
        if not self._ending:
            self._idle = not len(self._backlog)
            await self._clock.wait(self._woken, seconds)
            self._idle = False
            self._woken.clear()
        if self._ending:
            raise Ended

    def _note_retry(self, state: RetryCallState) -> None:
        entry: Entry = state.args[0]
        at = self._clock.now() + timedelta(seconds=state.upcoming_sleep)
        entry.delivery = replace(entry.delivery, not_before=at, error=_answer(state).reason)
        self._state = replace(self._state, next_attempt_at=at)
        self._outbox.note([entry.delivery])

    def _learn(self, answer: Answer) -> None:
        if isinstance(answer, Delivered):
            if self._failing_since_s is not None:
                logger.info("alerts: %s takes notifications again", self._receiver.name)
            self._failing_since_s = None
            self._state = replace(self._state, last_success_at=self._clock.now())
            return
        if self._failing_since_s is None or isinstance(answer, Refused):
            logger.warning("alerts: %s", answer.reason)
        if self._failing_since_s is None:
            self._failing_since_s = self._clock.monotonic_s()
        self._state = replace(self._state, last_error=answer.reason, last_error_at=self._clock.now())


def _wait(state: RetryCallState) -> float:
    """The backoff, or the time that the receiver named where that is longer."""
    return max(_backoff(state), _answer(state).after_s or 0.0)


def _answer(state: RetryCallState) -> Retry:
    """The one that is why it is tried again."""
    return cast(Retry, cast(Future, state.outcome).result())


def _is_retry(answer: Answer) -> bool:
    return isinstance(answer, Retry)


def _may_be_sent(entry: Entry) -> bool:
    is_stored = entry.stored is None or entry.stored.done()
    return is_stored and entry.delivery.notification.uid not in entry.over
