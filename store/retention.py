"""Deleting what is too old, setting apart what a wrong clock dated into the future, making room in a full file.

Each daemon cares for the rows of its own node, for those from before there were nodes, and, while its clock is
believed, for those of nodes that have been silent for a day (one was renamed, its machine is gone). All of it goes in
pieces: a list of steps, each repeated while it finds something. How old a row is, `domain.timeline` tells.

Belongs here: what goes when, and its order. Never: when it runs (controller/history/upkeep.py), what an operator wants
deleted (store/prune.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Table, delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.stretch import AS_READ_S, HOUR_S, MINUTE_S, begin
from domain.timeline import Times
from store import ages, ledger, quarantine, readings, rollup, told
from store.history import History
from store.models import (
    ActionRow,
    AlertRow,
    Base,
    DecisionRow,
    DeliveryRow,
    LedgerRow,
    QuarantineRow,
    ReadingRow,
    Run,
    SilenceRow,
)

MOST_ROWS = 1000
"""Of small rows a piece deletes so many."""
MOST_MINUTES = timedelta(minutes=10)
MOST_HOURS = timedelta(hours=10)
"""Of readings a piece deletes so long a time: whole stretches of the next resolution, see Readings.span."""
SILENT = timedelta(days=1)

Step = Callable[[AsyncSession], Awaitable[int]]
"""A piece of work in an open transaction; answers how many rows went: more than none, and it is done again."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long each kind is kept."""

    seconds: timedelta
    """Readings as they were read, the ledger by the minute."""
    minutes: timedelta
    """Readings by the minute, the ledger by the hour."""
    hours: timedelta
    """Readings by the hour, the ledger by the day."""
    decisions: timedelta
    """Decisions, alerts, deliveries, operators' actions, what was set apart, and the runs that no row belongs to."""


class Sweep:
    """One run of the retention, piece by piece."""

    def __init__(self, bounds: Bounds, times: Times, most_rows: int = MOST_ROWS) -> None:
        self._bounds = bounds
        self._times = times
        self._most_rows = most_rows
        self._steps: deque[Step] | None = None
        self.gone = 0
        """Rows that were deleted, rolled up or set apart."""

    async def piece(self, history: History) -> bool:
        """The next piece, in a transaction of its own; True: there is more. Raises HistoryUnavailable."""
        async with history.database.transaction() as session:
            if self._steps is None:
                self._steps = deque(await self._plan(session, history.node))
            if self._steps:
                gone = await self._steps[0](session)
                self.gone += gone
                if not gone:
                    self._steps.popleft()
        return bool(self._steps)

    async def _plan(self, session: AsyncSession, node: str) -> list[Step]:
        mine = await self._nodes(session, node)
        now, keep = self._times.earliest, self._bounds
        steps: list[Step] = [quarantine.step(row, mine, self._times.limit, self._times.latest) for row in told.DATED]
        for one in mine:
            if one != node:
                steps.append(_roll_up(one, now))
            steps += [
                _drop_readings(one, AS_READ_S, begin(now - keep.seconds, MINUTE_S)),
                _drop_readings(one, MINUTE_S, begin(now - keep.minutes, HOUR_S)),
                _drop_readings(one, HOUR_S, now - keep.hours),
                _roll_up_ledger(one, now - keep.seconds, MINUTE_S),
                _roll_up_ledger(one, now - keep.minutes, HOUR_S),
            ]
        before = now - keep.decisions
        steps.append(self._drop(LedgerRow, mine, now - keep.hours))
        steps += [self._drop(row, mine, before) for row in (DecisionRow, AlertRow, DeliveryRow, SilenceRow, ActionRow)]
        steps.append(self._drop(QuarantineRow, None, before))
        return [*steps, self._drop(Run, mine, before)]  # last: others refer to them

    def _drop(self, row: type[Base], nodes: Sequence[str] | None, before: datetime) -> Step:
        """What of these nodes, or of all, is old and no longer needed."""
        table, condition = Base.metadata.tables[row.__tablename__], ages.old(row.__tablename__, before)
        if nodes is not None:
            condition &= table.c.node.in_(nodes)

        async def step(session: AsyncSession) -> int:
            ids = select(table.c.id).where(condition).limit(self._most_rows)
            return await _deleted(session, table, table.c.id.in_(ids))

        return step

    async def _nodes(self, session: AsyncSession, node: str) -> list[str]:
        """Those to care for."""
        others: set[str] = set()
        if self._times.problem is None:  # by a clock that is not believed nobody is called silent
            others = await told.silent(session, node, self._times.earliest - SILENT)
        return sorted({node, "", *others})


def _drop_readings(node: str, resolution_s: int, before: datetime) -> Step:
    longest = MOST_MINUTES if resolution_s == AS_READ_S else MOST_HOURS
    within_s = MINUTE_S if resolution_s == AS_READ_S else HOUR_S

    async def step(session: AsyncSession) -> int:
        own = (ReadingRow.node == node) & (ReadingRow.resolution_s == resolution_s) & (ReadingRow.at < before)
        if resolution_s != HOUR_S:  # what has not been rolled up stays until it has
            own &= ReadingRow.id <= await rollup.mark(session, node, resolution_s)
        oldest = await session.scalar(select(func.min(ReadingRow.at)).where(own))
        if oldest is None:
            return 0
        end = begin(oldest, within_s) + longest
        return await _deleted(session, readings.TABLE, own & (ReadingRow.at < end))

    return step


def _roll_up(node: str, now: datetime) -> Step:
    async def step(session: AsyncSession) -> int:
        return int(await rollup.roll_up(session, node, now, silent=True))

    return step


def _roll_up_ledger(node: str, before: datetime, resolution_s: int) -> Step:
    async def step(session: AsyncSession) -> int:
        return await ledger.roll_up(session, node, before, resolution_s)

    return step


async def _deleted(session: AsyncSession, table: Table, condition: ColumnElement[bool]) -> int:
    connection = await session.connection()
    return (await connection.execute(delete(table).where(condition))).rowcount
