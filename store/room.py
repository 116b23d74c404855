"""Room in a SQLite file that nears its limit: the oldest recordings go, then the oldest readings that minutes were made
of. Free pages are used again, so the file stays as large as it is and takes what comes.

Belongs here: that. Never: what is too old (store/retention.py), the limit itself (store/database.py).
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.stretch import AS_READ_S, MINUTE_S, begin
from store import rollup
from store.database import MB, sqlite_path
from store.history import History
from store.models import ReadingRow, RecordingRow

FULL_RATIO, ROOMY_RATIO = 0.9, 0.85
"""Of the limit: from the one on rows are deleted, down to the other."""
EASED_RATIO = 0.8
"""Below this it is over: less is kept now, or the limit was raised."""
MOST_RECORDINGS = 50
MOST_MINUTES = timedelta(minutes=10)


class Room:
    """Lives as long as the daemon; a piece at a time."""

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit_bytes = limit_bytes
        self._deleted = {"recordings": 0, "readings": 0}
        self._making = False
        self.problem: str | None = None
        """One sentence while rows must go before their time, or none is left that may."""

    async def piece(self, history: History) -> bool:
        """Look, and delete a little where it is needed; True: there is more to do. Raises HistoryUnavailable."""
        if self._limit_bytes is None or sqlite_path(str(history.database.engine.url)) is None:
            return False
        async with history.database.transaction() as session:
            used_ratio = await _used_bytes(session) / self._limit_bytes
            before = self._making
            self._making = used_ratio > (ROOMY_RATIO if before else FULL_RATIO)
            if not self._making:
                if used_ratio <= EASED_RATIO and not before:
                    self.problem = None
                return False
            gone = await self._delete(session, history.node)
        self.problem = self._sentence(self._limit_bytes, gone)
        return gone

    async def _delete(self, session: AsyncSession, node: str) -> bool:
        connection = await session.connection()
        oldest = select(RecordingRow.id).order_by(RecordingRow.id).limit(MOST_RECORDINGS)
        gone = (await connection.execute(delete(RecordingRow).where(RecordingRow.id.in_(oldest)))).rowcount
        self._deleted["recordings"] += gone
        if gone:
            return True
        rolled_up = (
            (ReadingRow.node == node)
            & (ReadingRow.resolution_s == AS_READ_S)
            & (ReadingRow.id <= await rollup.mark(session, node, AS_READ_S))
        )
        first = await session.scalar(select(func.min(ReadingRow.at)).where(rolled_up))
        if first is None:
            return False
        until = begin(first, MINUTE_S) + MOST_MINUTES
        gone = (await connection.execute(delete(ReadingRow).where(rolled_up, ReadingRow.at < until))).rowcount
        self._deleted["readings"] += gone
        return True

    def _sentence(self, limit_bytes: int, gone: bool) -> str:
        full = f"the history nears store.max_mb = {limit_bytes / MB:.0f}"
        remedy = "raise it, or keep less (store.recording_hours, store.seconds_kept_hours)"
        if not gone:
            return f"cannot make room: {full} and nothing is left that may go before its time; {remedy}"
        what = " and ".join(name for name, count in self._deleted.items() if count)
        return f"{full}: the oldest {what} go before their time; {remedy}"


async def _used_bytes(session: AsyncSession) -> int:
    connection = await session.connection()
    pages, free, size = [
        int((await connection.exec_driver_sql(f"PRAGMA {name}")).scalar_one())
        for name in ("page_count", "freelist_count", "page_size")
    ]
    return (pages - free) * size
