"""The history as one thing: one database, one attribute for each kind of row.

Belongs here: opening and closing it. Never: queries (store/decisions.py and its neighbours).
"""

from __future__ import annotations

from store.alerts import Alerts
from store.audit import Audit
from store.database import Database, Limits, migrate
from store.decisions import Decisions
from store.kept import Kept
from store.ledger import Ledger
from store.moments import Moments
from store.readings import Readings
from store.recordings import Recordings
from store.rows import Chunk, StoredChunk, StoredDecision, StoredRun
from store.runs import Runs

__all__ = ["Chunk", "History", "StoredChunk", "StoredDecision", "StoredRun"]


class History:
    """The history at one database URL. Every method, and every one of its parts', raises HistoryUnavailable when the
    database does not answer.
    """

    def __init__(self, url: str, node: str = "", limits: Limits | None = None, *, to_read: bool = False) -> None:
        self.url = url
        self.node = node
        self.database = Database(url, node, limits, to_read=to_read)
        self.runs = Runs(self.database)
        self.decisions = Decisions(self.database)
        self.recordings = Recordings(self.database)
        self.moments = Moments(self.database)
        self.kept = Kept(self.database)
        self.readings = Readings(self.database)
        self.ledger = Ledger(self.database)
        self.audit = Audit(self.database)
        self.alerts = Alerts(self.database)

    async def open(self) -> bool:
        """Create or migrate the schema; True: the database was empty."""
        return await migrate(self.database.engine)

    async def close(self) -> None:
        """Give the connections back."""
        await self.database.engine.dispose()

    @property
    def where(self) -> str:
        """The file or the URL without its password, for messages."""
        return self.database.where
