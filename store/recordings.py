"""What the policies saw, in chunks, for replay.

Belongs here: writing, dropping and reading chunks. Never: what is in one (controller/history/view_codec.py).
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from store.database import Database
from store.models import RecordingRow
from store.rows import Chunk, StoredChunk, to_chunk


async def add(session: AsyncSession, node: str, run_id: int | None, chunk: Chunk, keep: int) -> None:
    """As Recordings.add, within an open transaction."""
    own = RecordingRow.node == node
    same = (RecordingRow.from_at == chunk.from_at, RecordingRow.to_at == chunk.to_at)
    if await session.scalar(select(RecordingRow.id).where(own, *same).limit(1)) is not None:
        return  # written before, and the answer was lost
    row = RecordingRow(
        node=node, run_id=run_id, from_at=chunk.from_at, to_at=chunk.to_at, ticks=chunk.ticks, body=chunk.body
    )
    session.add(row)
    await session.flush()
    oldest = select(RecordingRow.id).where(own).order_by(RecordingRow.id.desc()).offset(keep - 1).limit(1)
    await session.execute(delete(RecordingRow).where(own, RecordingRow.id < oldest.scalar_subquery()))


class Recordings:
    """Every method raises HistoryUnavailable when the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, run_id: int | None, chunk: Chunk, keep: int) -> None:
        """Write a chunk and drop all but this node's newest `keep`, in one transaction. The clock may have been wrong,
        so the newest are those written last.
        """
        async with self._database.transaction() as session:
            await add(session, self._database.node, run_id, chunk, keep)

    async def select(
        self, *, after_id: int = 0, since: datetime | None = None, node: str | None = None, limit: int = 100
    ) -> list[StoredChunk]:
        """The first `limit` chunks after number `after_id` that reach past `since`, of one node or of all, oldest
        first: ask again with the last number until none comes.
        """
        query = select(RecordingRow).where(RecordingRow.id > after_id).order_by(RecordingRow.id).limit(limit)
        if since is not None:
            query = query.where(RecordingRow.to_at >= since)
        if node is not None:
            query = query.where(RecordingRow.node == node)
        async with self._database.reading() as session:
            return [to_chunk(row) for row in (await session.scalars(query)).all()]

    async def nodes(self, since: datetime | None = None) -> list[str]:
        """The nodes that have chunks, or some that reach past `since`."""
        query = select(RecordingRow.node).distinct().order_by(RecordingRow.node)
        if since is not None:
            query = query.where(RecordingRow.to_at >= since)
        async with self._database.reading() as session:
            return list(await session.scalars(query))
