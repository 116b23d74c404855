"""A writer at a file, for a test that hands something over, and another process that stands in its way."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from store.database import Limits, database_url
from store.writer import QUEUE, Writer
from store.writes import AddDecisions, Boot
from tests.contract.store.samples import DECISION
from tests.views import runtime
from tests.waiting import PATIENCE_S

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
BOOT = Boot(BEGAN, "http://127.0.0.1:8000", runtime())
QUICK = Limits(busy_timeout_s=0.05)
"""Another one's lock is not waited for as long as in earnest."""


def change(number: int) -> AddDecisions:
    """One decision, told from the others by its number."""
    return AddDecisions(BOOT, [replace(DECISION, uid=f"{number:032x}", requested=float(number))])


def rows(path: Path, query: str) -> list[Any]:
    """What another reader of the file finds."""
    with closing(sqlite3.connect(path)) as other:
        return other.execute(query).fetchall()


def requested(path: Path) -> list[float]:
    """The numbers of the changes in the file, in its order."""
    return [value for (value,) in rows(path, "SELECT requested FROM decisions ORDER BY id")]


@asynccontextmanager
async def writing(
    path: Path, node: str = "", limits: Limits = QUICK, queue: int = QUEUE, stop_s: float = 10.0
) -> AsyncIterator[Writer]:
    """A writer that has begun; at the end it writes what waits."""
    writer = Writer(database_url(str(path)), node, limits, queue)
    await writer.start()
    try:
        yield writer
    finally:
        await writer.stop(stop_s)


async def written(writer: Writer) -> None:
    """All that was handed over is on disk; so long a history that failed is waited for."""
    async with asyncio.timeout(PATIENCE_S):
        while not await writer.flush(5.0):  # noqa: ASYNC110 - the writer tells nobody
            await asyncio.sleep(0.01)


async def until_failing(writer: Writer) -> None:
    """The writer has noticed that it cannot write."""
    async with asyncio.timeout(PATIENCE_S):
        while writer.state().problem is None:  # noqa: ASYNC110 - the writer tells nobody
            await asyncio.sleep(0.01)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another connection's lock: nothing can be written meanwhile, it can be read."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
