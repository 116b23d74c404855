"""What waits to be written: bounded, ordered, handed from the daemon's thread to the writer's without a lock.

A lock would make the tick wait for whoever holds it to be given the interpreter again, up to milliseconds; appending to
and taking from a deque is one step each. Belongs here: the order and the bound. Never: a database.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Iterable
from enum import IntEnum
from typing import Any, Protocol


class Importance(IntEnum):
    """What goes first where not all can: lower is written first and dropped last. Within one the order is kept."""

    ESSENTIAL = 0
    """Decisions and what became of them, kept values, alerts, operators' actions."""
    LEDGER = 1
    RECORDING = 2
    READING = 3


class Write(Protocol):
    """One thing to write. Called within an open transaction that others may share; it may be called again after the
    transaction failed or its answer was lost, so that doing it twice must leave what doing it once does.
    """

    @property
    def importance(self) -> Importance:
        """What goes first where not all can."""

    def __call__(self, history: Any, session: Any, /) -> Awaitable[None]:
        """Do it in `session`, an AsyncSession of `history`, a store.history.History."""


class Receipt:
    """What became of one write. Read by anybody; `written` turns true once it is on disk."""

    __slots__ = ("_waiter", "dropped", "failures", "put_s", "write", "written")

    def __init__(self, write: Write) -> None:
        self.write = write
        self.put_s = time.monotonic()
        self.written = self.dropped = False
        self.failures = 0
        """How often it failed alone while the database worked."""
        self._waiter: asyncio.Future[bool] | None = None

    def waiter(self) -> asyncio.Future[bool]:
        """Done once it is settled: true when it is on disk. For one to wait for."""
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        if self.written or self.dropped:  # looked at after it was set: the writer settles first and then looks
            _answer(waiter, self.written)
        return waiter

    def settle(self, *, written: bool) -> None:
        """It is on disk, or never will be. From any thread."""
        self.written, self.dropped = written, not written
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            try:
                waiter.get_loop().call_soon_threadsafe(_answer, waiter, written)
            except RuntimeError:
                return  # the daemon's loop has ended meanwhile


def _answer(waiter: asyncio.Future[bool], written: bool) -> None:
    if not waiter.done():
        waiter.set_result(written)


class Pending:
    """`put` belongs to the daemon's thread, `take` and `put_back` to the writer's. `bound` is how many wait at most,
    besides those of one transaction.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._queues = {importance: deque[Receipt]() for importance in Importance}
        self._under_way: tuple[Receipt, ...] = ()
        self.dropped: Counter[Importance] = Counter()
        """By importance, what was given up since the start."""

    def put(self, write: Write) -> Receipt:
        """Take one in; past the bound the oldest of the least important goes."""
        receipt = Receipt(write)
        self._queues[write.importance].append(receipt)
        self._trim()
        return receipt

    def _trim(self) -> None:
        """What is under way does not count: all there is of the less important may be among it."""
        while sum(map(len, self._queues.values())) > self._bound and self._drop_one():
            pass

    def _drop_one(self) -> bool:
        for importance in reversed(Importance):
            try:
                receipt = self._queues[importance].popleft()
            except IndexError:
                continue
            self.give_up(receipt)
            return True
        return False

    def give_up(self, receipt: Receipt) -> None:
        """It will not be written."""
        self.dropped[receipt.write.importance] += 1
        receipt.settle(written=False)

    def take(self, most: int, least: Importance) -> list[Receipt]:
        """Up to `most`, the more important first, none less important than `least`. `done` or `put_back` follows."""
        taken: list[Receipt] = []
        for importance, queue in self._queues.items():
            while importance <= least and len(taken) < most:
                try:
                    taken.append(queue.popleft())
                except IndexError:
                    break
        self._under_way = tuple(taken)
        return taken

    def done(self) -> None:
        """What was taken is on disk."""
        taken, self._under_way = self._under_way, ()
        for receipt in taken:
            receipt.settle(written=True)

    def put_back(self) -> None:
        """What was taken could not be written: it is next again."""
        taken, self._under_way = self._under_way, ()
        for receipt in reversed(taken):
            self._queues[receipt.write.importance].appendleft(receipt)
        self._trim()

    def give_up_taken(self) -> None:
        """What was taken cannot be written, now or later."""
        taken, self._under_way = self._under_way, ()
        for receipt in taken:
            self.give_up(receipt)

    def waiting(self, least: Importance = Importance.READING) -> int:
        """How many wait that are no less important than that."""
        under_way = sum(receipt.write.importance <= least for receipt in self._under_way)
        return under_way + sum(len(queue) for importance, queue in self._queues.items() if importance <= least)

    def __len__(self) -> int:
        return len(self._under_way) + sum(map(len, self._queues.values()))

    def oldest_wait_s(self) -> float:
        """How long the one that waits longest does; 0 when none waits."""
        first = [*_first(self._queues.values()), *self._under_way]
        return time.monotonic() - min(receipt.put_s for receipt in first) if first else 0.0


def _first(queues: Iterable[deque[Receipt]]) -> Iterable[Receipt]:
    for queue in queues:
        try:
            yield queue[0]
        except IndexError:
            continue
