"""The signals over time: a tick each, and minutes and hours made of them.

Belongs here: writing and reading them. Never: making minutes of them (store/rollup.py), dropping (store/retention.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Table, func, select, true
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.elements import ColumnElement

from domain.stretch import AS_READ_S, HOUR_S, MINUTE_S, RESOLUTIONS_S, Reading, begin, merged
from store.database import Database
from store.inserting import insert_into
from store.models import Base, ReadingRow

MOST_ROWS_A_POINT = 4
"""A span is read at the finest resolution that has at most so many rows for each point that is asked for."""
TABLE: Table = Base.metadata.tables[ReadingRow.__tablename__]
KEY = ("node", "resolution_s", "at")
MEANS = [TABLE.c[name] for name in ("at", "means", "resolution_s", "samples", "run_id", "node")]
Part = tuple[int, datetime, datetime]
"""A resolution, and from when to before when it is used."""


async def add(session: AsyncSession, node: str, readings: Sequence[Reading]) -> None:
    """As Readings.add, within an open transaction."""
    if not readings:
        return
    statement = insert_into(session, ReadingRow)
    figures = {name: statement.excluded[name] for name in ("run_id", "samples", "means", "highs")}
    await session.execute(
        statement.on_conflict_do_update(index_elements=KEY, set_=figures), [_values(node, one) for one in readings]
    )


def _values(node: str, one: Reading) -> dict[str, Any]:
    return {
        "node": node,
        "run_id": one.run_id,
        "resolution_s": one.resolution_s,
        "at": one.at,
        "samples": one.samples,
        "means": dict(one.means),
        "highs": dict(one.highs) or None,
    }


async def within(
    session: AsyncSession, node: str, resolution_s: int, since: datetime, until: datetime
) -> list[Reading]:
    """Those of one resolution that begin in [since, until), in the order of time, within an open transaction."""
    query = select(TABLE).where(_of(node, resolution_s, since, until)).order_by(ReadingRow.at)
    return [_reading(row) for row in (await session.execute(query)).mappings()]


def _of(
    node: str, resolution_s: int, since: datetime | None = None, until: datetime | None = None
) -> ColumnElement[bool]:
    own = (ReadingRow.node == node) & (ReadingRow.resolution_s == resolution_s)
    from_then = true() if since is None else ReadingRow.at >= since
    return own & from_then & (true() if until is None else ReadingRow.at < until)


def _reading(row: Any) -> Reading:
    return Reading(
        at=row["at"],
        means=row["means"],
        resolution_s=row["resolution_s"],
        samples=row["samples"],
        highs=row["highs"] or {},
        run_id=row["run_id"],
        node=row["node"],
    )


class Readings:
    """Those of one node, this database's own where none is named. Methods raise HistoryUnavailable when the database
    does not answer.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, readings: Sequence[Reading]) -> None:
        """Write readings, in place of those that there are for the same stretches."""
        async with self._database.transaction() as session:
            await add(session, self._database.node, readings)

    async def nodes(self) -> list[str]:
        """The nodes that have readings."""
        async with self._database.reading() as session:
            return await nodes(session)

    async def latest(self, node: str | None = None) -> Reading | None:
        """The reading that was written last, whatever its time; None where there is none."""
        own = _of(self._node(node), AS_READ_S)
        async with self._database.reading() as session:
            # By its number: a clock that was wrong for a while does not make a reading the latest.
            newest = select(func.max(ReadingRow.id)).where(own).scalar_subquery()
            row = (await session.execute(select(TABLE).where(ReadingRow.id == newest))).mappings().one_or_none()
            return None if row is None else _reading(row)

    async def at(self, moment: datetime, node: str | None = None) -> Reading | None:
        """The state at a moment: the finest reading that began last before or at it; None where none did."""
        found: list[Reading] = []
        async with self._database.reading() as session:
            for resolution_s in RESOLUTIONS_S:
                own = _of(self._node(node), resolution_s) & (ReadingRow.at <= moment)
                query = select(TABLE).where(own).order_by(ReadingRow.at.desc()).limit(1)
                found += [_reading(row) for row in (await session.execute(query)).mappings()]
        return max(found, key=lambda one: (one.at, -one.resolution_s), default=None)

    async def span(
        self, since: datetime, until: datetime, node: str | None = None, *, points: int = 500
    ) -> list[Reading]:
        """What began in [since, until), in the order of time: each part at the finest resolution that is kept of it,
        neighbours merged where there are more than `points`.
        """
        name, rows = self._node(node), list[Reading]()
        async with self._database.reading() as session:
            for finest_s in RESOLUTIONS_S:
                parts = await _parts(session, name, since, until, finest_s)
                if finest_s == HOUR_S or await _count(session, name, parts) <= MOST_ROWS_A_POINT * points:
                    for part in parts:
                        rows += await within(session, name, *part)
                    break
        return _thinned(rows, points)

    async def whole(self, since: datetime, until: datetime, node: str | None = None) -> list[Reading]:
        """What lies in [since, until) whole, in the order of time and without the highs: hours; minutes towards the
        ends and where there are no hours; single readings likewise. Few rows, and exact where those are kept.
        """
        async with self._database.reading() as session:
            return await _whole(session, self._node(node), since, until, RESOLUTIONS_S[::-1])

    def _node(self, node: str | None) -> str:
        return self._database.node if node is None else node


async def nodes(session: AsyncSession) -> list[str]:
    """As Readings.nodes, within an open transaction: from one to the next by the index, however many rows each has."""
    found: list[str] = []
    after: ColumnElement[bool] = true()
    while True:
        node = await session.scalar(select(func.min(ReadingRow.node)).where(after))
        if node is None:
            return found
        found.append(node)
        after = ReadingRow.node > node


async def _whole(
    session: AsyncSession, node: str, since: datetime, until: datetime, steps: Sequence[int]
) -> list[Reading]:
    if since >= until:
        return []
    step_s, *finer = steps
    first = begin(since - timedelta(microseconds=1), step_s) + timedelta(seconds=step_s)
    last = begin(until, step_s)
    if not finer:
        first, last = since, until
    rows: list[Reading] = []
    if first < last:
        query = select(*MEANS).where(_of(node, step_s, first, last)).order_by(ReadingRow.at)
        rows = [Reading(**row) for row in (await session.execute(query)).mappings()]
    if not finer:
        return rows
    if not rows:
        return await _whole(session, node, since, until, finer)
    before = await _whole(session, node, since, rows[0].at, finer)
    return [*before, *rows, *await _whole(session, node, rows[-1].at + timedelta(seconds=step_s), until, finer)]


async def _parts(session: AsyncSession, node: str, since: datetime, until: datetime, finest_s: int) -> list[Part]:
    """Hours, then minutes, then single readings, none of which overlap. What is dropped goes in whole stretches of the
    next resolution (store/retention.py), so the finer one is complete from the beginning of the one that it is in.
    """
    seconds, minutes, hours = [await _bounds(session, node, step_s, since, until) for step_s in RESOLUTIONS_S]
    from_minutes = from_seconds = until
    if minutes is not None:
        from_minutes = begin(minutes[0], HOUR_S)
    if finest_s == HOUR_S and hours is not None:
        from_minutes = hours[1] + timedelta(seconds=HOUR_S)
    if seconds is not None:
        from_seconds = begin(seconds[0], MINUTE_S)
    if finest_s != AS_READ_S and minutes is not None:
        from_seconds = max(minutes[1] + timedelta(seconds=MINUTE_S), from_minutes if finest_s == HOUR_S else since)
    from_minutes = min(from_minutes, from_seconds)
    return [
        (HOUR_S, since, from_minutes),
        (MINUTE_S, max(since, from_minutes), from_seconds),
        (AS_READ_S, max(since, from_seconds), until),
    ]


async def _bounds(
    session: AsyncSession, node: str, resolution_s: int, since: datetime, until: datetime
) -> tuple[datetime, datetime] | None:
    """When the first and the last of them begin."""
    own = _of(node, resolution_s, since, until)
    first = await session.scalar(select(ReadingRow.at).where(own).order_by(ReadingRow.at).limit(1))
    last = await session.scalar(select(ReadingRow.at).where(own).order_by(ReadingRow.at.desc()).limit(1))
    return None if first is None or last is None else (first, last)


async def _count(session: AsyncSession, node: str, parts: Sequence[Part]) -> int:
    counts = [await session.scalar(select(func.count()).where(_of(node, *part))) for part in parts]
    return sum(count or 0 for count in counts)


def _thinned(rows: Sequence[Reading], points: int) -> list[Reading]:
    """At most `points`, each of as many neighbours."""
    size = -(-len(rows) // points)
    if size <= 1:
        return list(rows)
    groups = [rows[first : first + size] for first in range(0, len(rows), size)]
    return [merged(group, group[0].at, sum(one.resolution_s for one in group)) for group in groups]
