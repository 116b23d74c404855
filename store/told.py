"""What the rows tell of the time and of who is alive, where a clock may be wrong: by their numbers as much as by their
times.

Belongs here: that. Never: which clock is believed (domain/timeline.py), what follows from it (store/retention.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Row, Table, func, select, true
from sqlalchemy.ext.asyncio import AsyncSession

from domain.stretch import AS_READ_S, RESOLUTIONS_S
from domain.timeline import TOLERANCE
from store import readings
from store.ages import WRITTEN_AT
from store.models import ActionRow, Base, DecisionRow, LedgerRow, ReadingRow, RecordingRow, Run

DATED: Sequence[type[Base]] = (DecisionRow, RecordingRow, ReadingRow, LedgerRow, ActionRow)
"""Tables that are asked by time, and that a daemon writes as it runs."""


async def written_last(session: AsyncSession, limit: datetime) -> datetime | None:
    """The time of the newest rows, whoever wrote them; None: there are none. A node that is new among others has no
    rows of its own, and its clock may be the wrong one.
    """
    found = [await _of_table(session, Base.metadata.tables[row.__tablename__], limit) for row in DATED]
    return max((at for at in found if at is not None), default=None)


async def _of_table(session: AsyncSession, table: Table, limit: datetime) -> datetime | None:
    """Where a clock leapt past `limit` as a row was written, the time of the newest before."""
    at = table.c[WRITTEN_AT[table.name]]
    kind: ColumnElement[bool] = true()
    wanted: ColumnElement[bool] = true()
    if table is readings.TABLE:  # minutes and hours are numbered as they are made: their times are older
        kind = table.c.resolution_s == AS_READ_S
        wanted = func.coalesce(table.c.resolution_s, 0) == AS_READ_S  # from the highest number down, not by the index

    async def newest(of: ColumnElement[bool]) -> datetime | None:
        return await session.scalar(select(at).where(wanted, of).order_by(table.c.id.desc()).limit(1))

    # The sum keeps SQLite from walking the numbers: the index on the times finds at once that there are none.
    first_ahead = await session.scalar(select(func.min(table.c.id + 0)).where(kind, at > limit))
    if first_ahead is None:
        return await newest(true())
    leapt_to = await session.scalar(select(at).where(table.c.id == first_ahead))
    leapt_from = await newest(table.c.id < first_ahead)
    leapt = leapt_from is not None and leapt_to is not None and leapt_to - leapt_from > TOLERANCE
    return await newest(at <= limit if leapt else true())


async def silent(session: AsyncSession, node: str, lately: datetime) -> set[str]:
    """Other nodes that wrote no reading since then: by its time, and by its number since this node wrote its own of
    that time. One whose clock differs lives all the same, and a node that has not run for so long calls nobody silent.
    """
    then = await _last(session, node, ReadingRow.at < lately)
    if then is None:
        return set()
    runs = await session.execute(select(Run.node, func.max(Run.started_at)).group_by(Run.node))
    found = {one for one, started_at in runs if started_at < lately}
    for other in await readings.nodes(session):
        newest = await _last(session, other, true())
        if newest is None or (newest.at < lately and newest.id < then.id):
            found.add(other)
        else:
            found.discard(other)
    return found - {node}


async def _last(session: AsyncSession, node: str, condition: ColumnElement[bool]) -> Row[int, datetime] | None:
    """The number and the time of a node's latest reading of those, of whatever resolution."""
    found: list[Row[int, datetime]] = []
    for resolution_s in RESOLUTIONS_S:
        own = (ReadingRow.node == node) & (ReadingRow.resolution_s == resolution_s)
        query = select(ReadingRow.id, ReadingRow.at).where(own, condition).order_by(ReadingRow.at.desc()).limit(1)
        found += (await session.execute(query)).all()
    return max(found, key=lambda row: row.at, default=None)
