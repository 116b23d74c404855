"""The one writer of the daemon's history: what the tick hands over is written by a thread of its own.

The tick never waits for the disk, but for `commit`, which has a time limit. Nothing here raises because the database is
broken: what cannot be written is kept in memory, up to a bound, and written when it can be. Belongs here: the daemon's
side. Never: how it is written (store/scribe.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from domain.errors import HistoryUnavailable
from store.database import Limits, sqlite_path
from store.health import Trouble
from store.history import History
from store.pending import Importance, Pending, Receipt, Write
from store.scribe import Scribe
from store.writes import Barrier, Keep

logger = logging.getLogger(__name__)

T = TypeVar("T")
QUEUE = 10_000
OPENING_S = 10.0
"""The start waits so long for the database; one that is still being brought up then is used when it is ready."""
CLOSING_S = 1.0
SWITCH_S = 0.0005
"""So long may the writer's Python keep the interpreter from the tick's; by default it is ten times as long."""


@dataclass(frozen=True, slots=True)
class WriterState:
    """How the writer fares. `problem` is a sentence, None when all is well; sizes are None where there is no file."""

    pending: int = 0
    dropped: int = 0
    """Writes given up since the start: the bound was reached, or they could not be written at all."""
    oldest_wait_s: float = 0.0
    problem: str | None = None
    trouble: Trouble | None = None
    set_aside: Path | None = None
    """Where a damaged file of this start went."""
    anew: int = 0
    """How often another database took the place of the one before, since the start."""
    file_bytes: int | None = None
    wal_bytes: int | None = None


class Writer:
    """One for the daemon's life. All methods belong to the thread that called `start`."""

    def __init__(self, url: str, node: str, limits: Limits | None = None, queue: int = QUEUE) -> None:
        limits = limits or Limits()
        self._pending = Pending(queue)
        self._scribe = Scribe(url, node, limits, self._pending, self._failed)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: set[asyncio.Future[bool]] = set()
        self._ended: asyncio.Future[None] | None = None
        self._late_at: int | None = None
        self.url = url
        self.node = node
        self.where = str(sqlite_path(url) or History(url, node).where)

    async def start(self) -> None:
        """Open the history, bring its schema up, set a damaged file aside. A database that does not answer is no
        error; one of a newer version is: raises NewerSchema.
        """
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))
        loop = self._loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        self._ended = loop.create_future()
        self._thread = threading.Thread(
            target=self._run, args=(loop, opened, self._ended), name="history-writer", daemon=True
        )
        self._thread.start()
        await asyncio.wait({opened}, timeout=OPENING_S)
        if self._scribe.newer is not None:
            await self.stop(0.0)
            raise self._scribe.newer

    def _run(self, loop: asyncio.AbstractEventLoop, opened: asyncio.Future[None], ended: asyncio.Future[None]) -> None:
        try:
            asyncio.run(self._scribe.run(lambda: _tell(loop, opened)))
        finally:
            _tell(loop, ended)

    def put(self, write: Write) -> Receipt:
        """Hand over; it is written within a moment, and kept until then. Takes microseconds."""
        if isinstance(write, Keep):
            self.remember(write)
        return self._pending.put(write)

    async def commit(self, write: Write, timeout_s: float) -> bool:
        """Hand over and wait. True: it is on disk. False: not yet, or given up; nothing more is to be done.

        A database that is known to be broken is not waited for.
        """
        return await self.settled(self.put(write), timeout_s)

    async def settled(self, receipt: Receipt, timeout_s: float) -> bool:
        """Wait for one that was handed over, as `commit` does."""
        if self._broken:
            return receipt.written
        waiter = receipt.waiter()
        self._waiters.add(waiter)
        self._scribe.wake()
        done, _ = await asyncio.wait({waiter}, timeout=timeout_s)
        self._waiters.discard(waiter)
        if not done and receipt.write.importance is Importance.ESSENTIAL:  # else it may wait for more than the disk
            self._late_at = self._scribe.successes
        return receipt.written

    def _failed(self) -> None:
        """In the writer's thread: nobody is to wait for a database that fails."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                self._loop.call_soon_threadsafe(self._disappoint)

    def _disappoint(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(False)

    async def flush(self, timeout_s: float) -> bool:
        """Wait for all that was handed over; False when it is not written within that time."""
        return not self._broken and await self.commit(Barrier(), timeout_s)

    async def run(self, job: Callable[[History], Awaitable[T]], timeout_s: float) -> T:
        """Have something done with the history between two transactions, in the writer's thread.

        Raises HistoryUnavailable when the database is broken or does not answer in time, and what the job raises.
        """
        if self._broken:
            raise HistoryUnavailable(self._problem or f"cannot use the history at {self.where} now")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        async def unless_cancelled(history: History) -> T | None:
            return None if answer.cancelled() else await job(history)

        self._scribe.jobs.append((unless_cancelled, lambda result, error: _tell(loop, answer, result, error)))
        self._scribe.wake()
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            raise HistoryUnavailable(
                f"cannot use the history at {self.where}: no answer within {timeout_s:g} s"
            ) from error

    def remember(self, write: Keep) -> None:
        """A value that is kept, to be written again where a damaged file is replaced by a new one."""
        self._scribe.opening.kept[write.name] = write

    async def stop(self, timeout_s: float) -> None:
        """Write what waits, within that time, and end the thread."""
        if self._thread is None or self._ended is None:
            return
        self._scribe.stop_by_s = time.monotonic() + timeout_s
        self._scribe.wake()
        await asyncio.wait({self._ended}, timeout=timeout_s + CLOSING_S)
        self._thread = None
        if lost := self._pending.waiting(Importance.RECORDING):
            logger.error("history: %d rows could not be written before the end: %s", lost, self._problem)

    @property
    def _broken(self) -> bool:
        """It fails, or the last that was waited for did not come and nothing was written since."""
        return self._scribe.failing or self._late_at == self._scribe.successes

    @property
    def _problem(self) -> str | None:
        scribe = self._scribe
        if scribe.problem is not None:
            return scribe.problem
        if self._broken:
            return f"cannot write the history at {self.where}: it takes too long"
        return scribe.wal.problem

    def state(self) -> WriterState:
        """How it fares now. No system call."""
        scribe = self._scribe
        return WriterState(
            pending=len(self._pending),
            dropped=self._pending.dropped.total(),
            oldest_wait_s=self._pending.oldest_wait_s(),
            problem=self._problem,
            trouble=scribe.trouble,
            set_aside=scribe.opening.set_aside,
            anew=scribe.opening.anew,
            file_bytes=scribe.wal.file_bytes,
            wal_bytes=scribe.wal.wal_bytes,
        )


def _tell(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[T],
    result: T | None = None,
    error: BaseException | None = None,
) -> None:
    """Settle a future of another thread's loop."""

    def settle() -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        return  # the loop has ended meanwhile
