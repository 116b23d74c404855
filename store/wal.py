"""The sizes of SQLite's files, and the write-ahead log's limit.

The log is emptied by a checkpoint, and a checkpoint cannot pass a transaction that still reads: a reader that stays
open for hours lets it grow by every row that is written. Belongs here: watching that. Never: what is written meanwhile.
"""

from __future__ import annotations

import time
from pathlib import Path

from domain.errors import HistoryUnavailable
from store import health
from store.database import MB, Limits
from store.history import History

BUSY_MS = 20
FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 10.0


class WalKeeper:
    """`held`: the log has reached its limit and cannot be emptied."""

    def __init__(self, path: Path | None, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._retry_s = self._delay_s = 0.0
        self.held = False
        self.file_bytes: int | None = None
        self.wal_bytes: int | None = None

    @property
    def problem(self) -> str | None:
        """A sentence while it is held."""
        most = self._limits.wal_max_bytes
        if not self.held or most is None:
            return None
        return (
            f"cannot write all of the history: its write-ahead log has reached {most / MB:.3g} MB, as another "
            "process reads in one transaction all the while; decisions are written, the rest waits in memory until "
            "that reader ends"
        )

    async def look(self, history: History) -> None:
        """Take the sizes, and empty the log where it is over its limit; where that fails, not at once again."""
        self._measure()
        most = self._limits.wal_max_bytes
        if most is None or (self.wal_bytes or 0) <= most:
            self.held, self._delay_s = False, 0.0
        elif not self.held or time.monotonic() >= self._retry_s:
            self.held = not await self._empty(history)
            self._delay_s = min(max(2 * self._delay_s, FIRST_DELAY_S), LONGEST_DELAY_S)
            self._retry_s = time.monotonic() + self._delay_s
            self._measure()

    def _measure(self) -> None:
        if self._path is not None:
            self.file_bytes, self.wal_bytes = health.file_bytes(self._path), health.wal_bytes(self._path)

    async def _empty(self, history: History) -> bool:
        """Whether the log is empty now."""
        usual_ms = round(self._limits.busy_timeout_s * 1000)
        try:
            async with history.database.outside() as connection:
                await connection.exec_driver_sql(f"PRAGMA busy_timeout={BUSY_MS}")
                try:
                    row = (await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")).one()
                finally:
                    await connection.exec_driver_sql(f"PRAGMA busy_timeout={usual_ms}")
        except HistoryUnavailable:
            return False
        return bool(row[0] == 0)
