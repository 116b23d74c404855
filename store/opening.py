"""Opening the writer's database, whatever has become of it: absent, damaged, replaced.

A damaged SQLite file is moved away whole and a new one begun. Where the database is another one than before (that one,
a file that was taken away, a server in the place of another), the ledger notes the break, and what is kept by name (a
rollback that is in force) is written again. Belongs here: that. Never: when it is tried again (store/scribe.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from domain.errors import HistoryUnavailable
from domain.ledger import LedgerEntry
from domain.stretch import MINUTE_S
from store import health, rollup
from store.history import History
from store.pending import Write
from store.writes import AddLedger, Keep

logger = logging.getLogger(__name__)

CHECK_S = 3.0
"""A file is checked for so long at the start."""
ANEW_S = 60.0
"""A file is set aside once within so long: a disk that spoils every file must not be filled with them."""


class Opening:
    """The one history of the writer's thread. The attributes without underscore may be read from any."""

    def __init__(self, path: Path | None, new: Callable[[], History]) -> None:
        self._path = path
        self._new = new
        self._inode: int | None = None
        self._checked = self._opened = False
        self._first: Sequence[Write] = ()
        self._anew_s: float | None = None
        self.history: History | None = None
        self.kept: dict[str, Keep] = {}
        """What is kept by name, to be written again into a database that is begun anew."""
        self.set_aside: Path | None = None
        self.anew = 0
        """How often another database took the place of the one before."""

    async def open(self) -> None:
        """Raises HistoryUnavailable and NewerSchema."""
        await self._check()
        history = self._new()
        try:
            if await history.open() and self._opened and not self._first:
                self._first = [_note("the database was empty: what was written before is not in it")]
            await self._write_first(history)
        except BaseException:
            await history.close()
            raise
        self.history, self._inode, self._opened = history, _inode(self._path), True

    async def _write_first(self, history: History) -> None:
        if self._first:
            async with history.database.transaction() as session:
                for write in (*self._first, *list(self.kept.values())):
                    await write(history, session)
            self._first = ()
            self.anew += 1

    async def close(self) -> None:
        """Let go of it."""
        history, self.history = self.history, None
        if history is not None:
            await history.close()

    async def _check(self) -> None:
        """Once: a file that is damaged in the middle opens well, and fails only when that part is read."""
        if self._checked or self._path is None or not self._path.exists():
            return
        await asyncio.to_thread(health.undo_set_aside, self._path)
        found = await asyncio.to_thread(health.quick_check, self._path, CHECK_S)
        self._checked = True
        if found.problem is not None:
            await self.begin_anew(found.problem)

    async def notice_another_file(self) -> None:
        """Close a file that was moved or deleted: it takes every row that is still written to it along."""
        if self.history is None or self._inode is None or _inode(self._path) == self._inode:
            return
        logger.warning("history: %s was moved, deleted or replaced; what is there now is opened", self._path)
        self._first = [_note("the file of the history was taken away: what was used before is not in this one")]
        await self.close()

    async def begin_anew(self, why: str) -> None:
        """Move the damaged file away; the next opening makes a new one. Raises HistoryUnavailable."""
        now_s = time.monotonic()
        if self._path is None or (self._anew_s is not None and now_s - self._anew_s < ANEW_S):
            raise HistoryUnavailable(f"cannot write the history at {self._path or 'the server'}: it is damaged ({why})")
        saved = await self._salvage()
        await self.close()
        aside = await asyncio.to_thread(health.set_aside, self._path)
        self._anew_s, self.set_aside = now_s, aside
        logger.error("history: %s is damaged (%s): it was set aside as %s, a new one is begun", self._path, why, aside)
        self._first = [_note(f"the history was damaged and set aside as {aside.name}"), *saved]

    async def _salvage(self) -> list[Keep]:
        """What the daemon must still know, as far as it can be read. Not how far the rows of that file were rolled up:
        another one gives its rows the same numbers.
        """
        history = self.history or self._new()
        try:
            found = await history.kept.all()
            return [Keep(name, at, value) for name, at, value in found if not name.startswith(rollup.MARK)]
        except HistoryUnavailable as error:
            logger.warning("history: what was kept over restarts cannot be read any more: %s", error)
            return []
        finally:
            if history is not self.history:
                await history.close()


def _inode(path: Path | None) -> int | None:
    if path is None:
        return None
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _note(said: str) -> AddLedger:
    """The ledger tells that its figures do not follow on from those before."""
    at = datetime.now(UTC).replace(second=0, microsecond=0)
    return AddLedger(None, [LedgerEntry(at, MINUTE_S, {}, note=said)])
