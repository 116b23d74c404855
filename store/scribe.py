"""The writer's own thread: opens the database, writes what waits, and finds a way on when that fails.

| what fails | what is done |
| --- | --- |
| no space, lock, right, table, server | kept in memory, tried again after 0.5 s, then ever longer, at most 10 s |
| the file has reached its own limit | room is made in it, then tried again at once |
| the file holds no sound database | moved away whole, a new one is begun, the ledger notes the break |
| a reader keeps the write-ahead log from being emptied at its limit | essential rows alone are written |
| one row cannot be written, others can | that one is dropped and logged |

Belongs here: that. Never: what is written (store/writes.py), the daemon's thread (store/writer.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from domain.errors import HistoryUnavailable, NewerSchema
from store import health, kept
from store.blame import Blame, blame
from store.database import Limits, sqlite_path
from store.health import Trouble
from store.history import History
from store.opening import Opening
from store.pending import Importance, Pending, Receipt
from store.room import Room
from store.wal import WalKeeper
from store.writes import do_all

logger = logging.getLogger(__name__)

POLL_S = 0.5
"""What needs no answer waits so long at most, so that handing over needs no system call."""
GATHER_S = 5.0
"""So long readings wait for company, unless something else is written: a transaction is as dear for one as for ten."""
MOST = 250
"""Writes in one transaction: some tens of milliseconds."""
FIRST_DELAY_S, LONGEST_DELAY_S = 0.5, 10.0
PATIENCE = 5
"""So often may a write fail alone, while others succeed, before it is dropped."""
Job = tuple[Callable[[History], Awaitable[Any]], Callable[[Any, BaseException | None], None]]
"""What to do, and whom to tell."""


class Scribe:
    """Runs in a thread of its own. The attributes without underscore may be read from any."""

    def __init__(self, url: str, node: str, limits: Limits, pending: Pending, tell: Callable[[], None]) -> None:
        """`tell` is called in this thread whenever the database was found to fail."""
        self._tell = tell
        self._path = sqlite_path(url)
        self._file_max_bytes = limits.file_max_bytes
        self._pending = pending
        self._most = MOST
        self._retry_s = self._delay_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._awake = asyncio.Event()
        self._urgent = self._asleep = self._hurried = False
        self.opening = Opening(self._path, lambda: History(url, node, limits))
        self.wal = WalKeeper(self._path, limits)
        self.jobs: deque[Job] = deque()
        self.stop_by_s: float | None = None
        self.failing = True
        self.problem: str | None = "cannot write the history yet: it is being opened"
        self.trouble: Trouble | None = None
        self.newer: NewerSchema | None = None
        self.successes = 0

    def wake(self) -> None:
        """Write at once. From any thread; one that is at work is not called, since the call is a system call, and the
        tick would wait for the interpreter after it.
        """
        self._urgent = True
        if self._loop is not None and self._asleep:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._awake.set)

    async def run(self, opened: Callable[[], None]) -> None:
        """Until `stop_by_s` is set and all is written or that moment is past. Raises nothing; `opened` is called after
        the first attempt.
        """
        self._loop = asyncio.get_running_loop()
        try:
            await self._guarded(self._step)
            opened()
            while not self._over():
                await self._pause()
                await self._guarded(self._step)
        finally:
            self._refuse_jobs()
            await self._guarded(self.opening.close)

    def _over(self) -> bool:
        if self.stop_by_s is None:
            return False
        return time.monotonic() >= self.stop_by_s or not (len(self._pending) or self.jobs)

    async def _pause(self) -> None:
        now = time.monotonic()
        if self.failing:
            limit = self._retry_s - now if self.stop_by_s is None else min(self._retry_s - now, POLL_S)
        else:
            limit = 0.0 if self.jobs or self._pending.waiting(self._least) >= MOST else POLL_S
        self._asleep = True  # before it looks whether anything is urgent: see wake
        if not self._urgent or self.failing:
            alarm = asyncio.get_running_loop().call_later(max(limit, 0.0), self._awake.set)
            await self._awake.wait()
            alarm.cancel()
        self._hurried, self._asleep, self._urgent = self._urgent, False, False
        self._awake.clear()

    async def _guarded(self, act: Callable[[], Awaitable[None]]) -> None:
        """The thread outlives what nobody foresaw."""
        try:
            await act()
        except Exception as error:
            logger.exception("history: the writer failed")
            self._pending.put_back()
            self._ail(Trouble.OTHER, f"cannot write the history: {error!r}")

    async def _step(self) -> None:
        await self.opening.notice_another_file()
        if self.opening.history is None:
            await self._open()
        history = self.opening.history
        if history is None or not await self._write(history):
            self._refuse_jobs()
        else:
            await self._work_once(history)
            await self.wal.look(history)

    async def _open(self) -> None:
        try:
            await self.opening.open()
        except NewerSchema as error:
            self.newer = error
            await self.opening.close()
            self._ail(Trouble.OTHER, str(error))
        except (HistoryUnavailable, SQLAlchemyError, OSError) as error:
            await self._fail(error)

    @property
    def _least(self) -> Importance:
        return Importance.ESSENTIAL if self.wal.held else Importance.READING

    @property
    def _may_wait(self) -> bool:
        """Nothing but readings waits, none of them long, and nobody for them."""
        pending = self._pending
        calm = not (
            self._hurried or self.failing or self.stop_by_s is not None or pending.waiting(Importance.RECORDING)
        )
        return calm and pending.waiting() < MOST and pending.oldest_wait_s() < GATHER_S

    async def _write(self, history: History) -> bool:
        """One transaction with all that waits, up to MOST; False when the database fails."""
        if self._may_wait:
            return True
        batch = self._pending.take(self._most, self._least)
        if not batch and not self.failing:
            return True
        try:
            async with history.database.transaction() as session:
                await do_all([receipt.write for receipt in batch], history, session)
                if not batch:  # whether it works again
                    await _probe(history, session)
        except Exception as error:
            await self._blame(history, batch, error)
            return not self.failing
        self._pending.done()
        self._recover()
        return True

    async def _blame(self, history: History, batch: list[Receipt], error: Exception) -> None:
        """The database, or one of the writes?"""
        trouble = health.classify(error, self._path)
        alone = len(batch) == 1
        whose = blame(error)
        if trouble is Trouble.OTHER and alone and whose is not Blame.DATABASE:
            batch[0].failures += 1
            if whose is Blame.WRITE or (batch[0].failures >= PATIENCE and await _works(history)):
                logger.error("history: dropped a write that cannot be written: %s", error)
                self._pending.give_up_taken()
                return
        self._pending.put_back()
        if trouble is Trouble.OTHER:
            self._most = 1  # find it: one at a time, until one is written again
            if whose is Blame.WRITE:
                return
        await self._fail(error)

    async def _fail(self, error: Exception) -> None:
        trouble = health.classify(error, self._path)
        said = str(error)
        if trouble is Trouble.CORRUPT:
            try:
                await self.opening.begin_anew(said)
            except HistoryUnavailable as unmoved:
                said = str(unmoved)
            else:
                self._ail(trouble, said)
                self._retry_s = time.monotonic()
                return
        if trouble is Trouble.FULL and self.opening.history is not None:
            room = Room(self._file_max_bytes)
            if await _made(room, self.opening.history):
                self._retry_s = time.monotonic()
                self._awake.set()
                return
            said = room.problem or said
        if trouble not in (Trouble.FULL, Trouble.LOCKED):
            await self.opening.close()  # what it is connected to may be gone
        self._ail(trouble, said)

    def _ail(self, trouble: Trouble, problem: str) -> None:
        self._delay_s = min(max(2 * self._delay_s, FIRST_DELAY_S), LONGEST_DELAY_S)
        self._retry_s = time.monotonic() + self._delay_s
        self.failing, self.trouble, self.problem = True, trouble, problem
        self._tell()

    def _recover(self) -> None:
        self._most = min(2 * self._most, MOST)
        self._delay_s = 0.0
        self.successes += 1
        self.failing, self.trouble, self.problem = False, None, None

    async def _work_once(self, history: History) -> None:
        if not self.jobs:
            return
        job, tell = self.jobs.popleft()
        try:
            tell(await job(history), None)
        except Exception as error:
            tell(None, error)
            if isinstance(error, HistoryUnavailable) and blame(error) is not Blame.WRITE:
                await self._fail(error)

    def _refuse_jobs(self) -> None:
        while self.jobs:
            self.jobs.popleft()[1](None, HistoryUnavailable(self.problem or "cannot use the history: it is closed"))


async def _made(room: Room, history: History) -> bool:
    """Whether a little went, where it is the file's own limit that is reached. The job that makes room in time is not
    called while nothing can be written, and one transaction may take all that was left.
    """
    try:
        return await room.piece(history)
    except HistoryUnavailable:
        return False  # the disk is full as well


async def _works(history: History) -> bool:
    try:
        async with history.database.transaction() as session:
            await _probe(history, session)
    except HistoryUnavailable:
        return False
    return True


async def _probe(history: History, session: Any) -> None:
    """Writes, and leaves nothing."""
    now = datetime.now(UTC)
    await kept.put(session, history.node, "probe", now, {})
    await kept.put(session, history.node, "probe", now, None)
