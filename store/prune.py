"""Deleting what is older than an operator wants to keep, in pieces, so that the daemon's writes come in between.

Belongs here: deleting it, giving the room back. Never: what of a table is old (store/ages.py), the daemon's own
retention.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import ColumnElement, Table, and_, delete, func, select, text

from domain.errors import HistoryUnavailable
from store import ages, health
from store.database import Database, sqlite_path
from store.models import Base

PIECE_S = 0.05
"""How long the lock is held at a time, about."""
FIRST_PIECE, LARGEST_PIECE = 50, 5000


class Prunable(StrEnum):
    """The tables that can be pruned. Runs come last: others refer to them. What is kept by name has no age."""

    RECORDINGS = "recordings"
    READINGS = "readings"
    LEDGER = "ledger"
    DECISIONS = "decisions"
    DELIVERIES = "deliveries"
    ALERTS = "alerts"
    SILENCES = "silences"
    ACTIONS = "actions"
    QUARANTINE = "quarantine"
    RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Old:
    """How much of a table is older than a moment and would be deleted."""

    table: Prunable
    rows: int
    old: int


async def old(database: Database, name: Prunable, before: datetime) -> Old:
    """Count them. Raises HistoryUnavailable."""
    table = Base.metadata.tables[name]
    async with database.reading() as session:
        rows = await session.scalar(select(func.count()).select_from(table))
        aged = await session.scalar(select(func.count()).select_from(table).where(ages.old(name, before)))
    return Old(name, rows or 0, aged or 0)


async def prune(database: Database, name: Prunable, before: datetime) -> AsyncIterator[int]:
    """Delete them piece by piece; yields how many each took. Between two it leaves as much time as the piece took.

    Raises HistoryUnavailable.
    """
    table, condition = Base.metadata.tables[name], ages.old(name, before)
    last, size = 0, FIRST_PIECE
    while True:
        ids = select(table.c.id).where(table.c.id > last, condition).order_by(table.c.id).limit(size)
        async with database.reading() as session:
            found = (await session.scalars(ids)).all()
        if not found:
            return
        began = time.perf_counter()
        deleted = await _delete(database, table, and_(table.c.id > last, table.c.id <= found[-1], condition))
        took_s = time.perf_counter() - began
        last = found[-1]
        # A run is looked for in every table that refers to it, so a piece of runs is far smaller than one of readings.
        size = min(LARGEST_PIECE, size * 2) if took_s < PIECE_S / 2 else max(1, size // 2) if took_s > PIECE_S else size
        yield deleted
        await asyncio.sleep(took_s)


async def _delete(database: Database, table: Table, condition: ColumnElement[bool]) -> int:
    async with database.transaction() as session:
        return (await (await session.connection()).execute(delete(table).where(condition))).rowcount


async def vacuum(database: Database) -> None:
    """Rewrite the database without its free pages. A SQLite file can be written by nobody else meanwhile.

    Raises HistoryUnavailable.
    """
    path = sqlite_path(str(database.engine.url))
    if path is None:
        async with database.outside() as connection:
            alone = await connection.execution_options(isolation_level="AUTOCOMMIT")
            await alone.execute(text("VACUUM ANALYZE"))
        return
    size, free = health.file_bytes(path), health.free_bytes(path)
    if size is not None and free is not None and free < 2 * size:  # once in the temporary copy, once in the log
        raise HistoryUnavailable(
            f"cannot vacuum {path}: it takes up to {2 * size / 1e6:.0f} MB for a while and {free / 1e6:.0f} MB are "
            "free; what was deleted is used for new rows all the same"
        )
    async with database.outside() as connection:
        await connection.exec_driver_sql("VACUUM")
        await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
