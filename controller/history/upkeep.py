"""The history's own jobs: minutes and hours are made, what is too old goes, statistics for the planner are renewed.

Each job is many short pieces, done by the writer's thread between two of its transactions; a tick never waits for one.
A job that takes longer than its limit stops and goes on at its next time; one that was missed while the host slept runs
once. Belongs here: what runs how often. Never: what a piece does (store/).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from controller import clock as system_clock
from controller.settings import StoreSettings
from controller.watch import Condition
from domain.errors import HistoryUnavailable
from store.database import MB
from store.history import History
from store.maintenance import Maintenance
from store.retention import Bounds
from store.writer import Writer

logger = logging.getLogger(__name__)

ROLL_UP_EVERY_S, RETAIN_EVERY_S, OPTIMIZE_EVERY_S = 60, 600, 3600
ROLL_UP_LIMIT_S, RETAIN_LIMIT_S, OPTIMIZE_LIMIT_S = 20.0, 120.0, 20.0
PIECE_LIMIT_S = 10.0
"""How long a job waits for one piece: the writer may be at work, or another process hold the lock."""
FIRST_AFTER_S = 30
"""The start is not made slower by it."""

Piece = Callable[[History], Awaitable[bool]]
"""Answers whether there is more."""


class Upkeep:
    """One for the daemon's life. Nothing here raises because the history is broken: the writer says that."""

    def __init__(
        self, writer: Writer, settings: StoreSettings, clock: Callable[[], system_clock.Now] = system_clock.now
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._timeline, self._room = Condition("retention"), Condition("history's size")
        self._work = Maintenance(_bounds(settings), round(settings.max_mb * MB))

    def configure(self, settings: StoreSettings) -> None:
        """Take new bounds, from the next run on. The limit of the file changes at the next start only."""
        self._work.bounds = _bounds(settings)

    def schedule(self, scheduler: AsyncIOScheduler) -> None:
        """Each job alone: one that still runs is not begun again."""
        jobs = ((self.roll_up, ROLL_UP_EVERY_S), (self.retain, RETAIN_EVERY_S), (self.optimize, OPTIMIZE_EVERY_S))
        for job, every_s in jobs:
            scheduler.add_job(
                job,
                "interval",
                seconds=every_s,
                id=job.__name__,
                max_instances=1,
                coalesce=True,
                misfire_grace_time=None,
                next_run_time=datetime.now(UTC) + timedelta(seconds=FIRST_AFTER_S),
            )

    async def roll_up(self) -> None:
        """Make minutes and hours, and room in a file that nears its limit."""
        if await self._repeat(lambda history: self._work.roll_up(history, self._clock().wall), ROLL_UP_LIMIT_S):
            await self._repeat(self._work.make_room, ROLL_UP_LIMIT_S)
        self._room.report(self._work.size_problem)

    async def retain(self) -> None:
        """Drop what is too old."""

        async def piece(history: History) -> bool:
            now = self._clock()
            return await self._work.retain(history, now.wall, now.monotonic_s)

        await self._repeat(piece, RETAIN_LIMIT_S)
        self._timeline.report(self._work.clock_problem)

    async def optimize(self) -> None:
        """Let the database learn how its rows are spread."""
        await self._repeat(self._work.optimize, OPTIMIZE_LIMIT_S)

    async def _repeat(self, piece: Piece, limit_s: float) -> bool:
        """Until nothing is left; False when the history is broken or the time is up."""
        until_s = self._clock().monotonic_s + limit_s
        try:
            while await self._writer.run(piece, PIECE_LIMIT_S):
                if self._clock().monotonic_s >= until_s:
                    return False
        except HistoryUnavailable as error:
            logger.debug("upkeep: %s", error)
            return False
        return True


def _bounds(settings: StoreSettings) -> Bounds:
    return Bounds(
        seconds=timedelta(hours=settings.seconds_kept_hours),
        minutes=timedelta(days=settings.minutes_kept_days),
        hours=timedelta(days=settings.hours_kept_days),
        decisions=timedelta(days=settings.decisions_kept_days),
    )
