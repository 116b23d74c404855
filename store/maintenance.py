"""The daemon's care for its history, each call a piece that holds the lock for some tens of milliseconds.

Belongs here: what is carried from one piece to the next, the time that is believed most of all. Never: what a piece
does (store/rollup.py, retention.py, room.py), when it is called (controller/history/upkeep.py).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.timeline import TOLERANCE, Timeline
from store import kept, rollup, told
from store.database import sqlite_path
from store.history import History
from store.models import KeptRow
from store.retention import Bounds, Sweep
from store.room import Room

logger = logging.getLogger(__name__)

TIMELINE = "timeline"
"""The kept value of the time that was believed last."""
ANALYSIS_ROWS = 1000
"""SQLite looks at so many rows of an index at most: milliseconds."""


class Maintenance:
    """One for the daemon's life. Every method raises HistoryUnavailable; True means that there is more to do."""

    def __init__(self, bounds: Bounds, limit_bytes: int | None) -> None:
        self.bounds = bounds
        self.clock_problem: str | None = None
        """Why retention waits, as a sentence."""
        self._timeline: Timeline | None = None
        self._sweep: Sweep | None = None
        self._room = Room(limit_bytes)

    @property
    def size_problem(self) -> str | None:
        """Why rows go before their time, as a sentence."""
        return self._room.problem

    async def roll_up(self, history: History, wall: datetime) -> bool:
        """Make minutes and hours of what has ended."""
        async with history.database.transaction() as session:
            return await rollup.roll_up(session, history.node, wall)

    async def make_room(self, history: History) -> bool:
        """Where a SQLite file nears its limit."""
        return await self._room.piece(history)

    async def retain(self, history: History, wall: datetime, monotonic_s: float) -> bool:
        """Drop what is too old; the first piece of a run asks what time it is. `monotonic_s` counts while the daemon
        runs.
        """
        if self._sweep is None:
            async with history.database.transaction() as session:
                if self._timeline is None:
                    self._timeline = await _timeline(session, history.node, wall)
                times = self._timeline.look(wall, monotonic_s)
                await kept.put(session, history.node, TIMELINE, times.earliest, self._timeline.state)
            self.clock_problem = times.problem
            self._sweep = Sweep(self.bounds, times)
            return True
        more = await self._sweep.piece(history)
        if not more:
            if self._sweep.gone:
                logger.debug("retention: %d rows rolled up, deleted or set apart", self._sweep.gone)
            self._sweep = None
        return more

    async def optimize(self, history: History) -> bool:
        """Renew SQLite's statistics where it thinks them old; PostgreSQL does so by itself."""
        if sqlite_path(str(history.database.engine.url)) is not None:
            async with history.database.outside() as connection:
                await connection.exec_driver_sql(f"PRAGMA analysis_limit={ANALYSIS_ROWS}")
                await connection.exec_driver_sql("PRAGMA optimize")
        return False


async def _timeline(session: AsyncSession, node: str, wall: datetime) -> Timeline:
    """As it was kept, else from what was written last, else from now."""
    same = (KeptRow.node == node) & (KeptRow.name == TIMELINE)
    state: Mapping[str, Any] | None = await session.scalar(select(KeptRow.value).where(same))
    if state is not None:
        try:
            return Timeline.of(state)
        except (KeyError, TypeError, ValueError):
            logger.warning("retention: cannot understand what was kept of the clock; it is asked anew")
    return Timeline(await told.written_last(session, wall + TOLERANCE) or wall)
