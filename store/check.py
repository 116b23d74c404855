"""Looking a history over: what is in it, how large it is, whether it is whole. Nothing is changed.

It must say what it can of a history that is damaged, old or being written, so each part is looked at by itself, in a
short read of its own, and what fails becomes a problem beside the rest.

Belongs here: facts. Never: which of them is a fault (controller/cli/db_findings.py), repairs.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, case, column, func, inspect, literal, select, table, text

from domain.decision import Status
from domain.errors import HistoryUnavailable
from domain.incident import DeliveryStatus
from domain.timeline import TOLERANCE
from store import health, unwritable
from store.ages import WRITTEN_AT
from store.columns import UtcDateTime
from store.database import Database, sqlite_path
from store.models import Base, DecisionRow, DeliveryRow
from store.revision import Revision, revision

Found = TypeVar("Found")

IN_FLIGHT = timedelta(minutes=5)
"""A change that was intended before this is not under way any more."""
MOST_FAULTS = 20
"""Of those that SQLite lists."""
BUSY_S = 5.0


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table. `bytes` None: not known; times None: no row, or no time in it."""

    name: str
    rows: int
    oldest: datetime | None = None
    newest: datetime | None = None
    future: int = 0
    """Rows dated later than now, by more than clocks differ."""
    nodes: Mapping[str, int] = field(default_factory=dict)
    """Node to its rows; empty where rows have no node."""
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found. None: not known, or no thing of this kind of database."""

    where: str
    backend: str
    """The database program and its version."""
    schema: Revision | None
    tables: tuple[TableFacts, ...]
    damage: tuple[str, ...] | None
    """What SQLite's own check names; empty: it found nothing."""
    total_bytes: int | None
    wal_bytes: int | None
    free_bytes: int | None
    """Room on the disk that the file is on."""
    set_aside: tuple[Path, ...]
    """Files that were found corrupt earlier and moved aside."""
    cut_off: int | None
    """Changes that were intended and never concluded."""
    undelivered: int | None
    undeliverable: int | None
    """Notifications that were given up."""
    problems: tuple[str, ...]
    """What could not be looked at, and why."""


async def look_over(database: Database, now: datetime, *, full: bool) -> Facts:
    """All of it. `full` holds the indexes against their tables too, which takes several times as long."""
    path = sqlite_path(str(database.engine.url))
    parts = _Parts(database, now)
    schema = await parts.ask(revision(database))
    there = [one.name for one in Base.metadata.sorted_tables if schema is not None and one.name in schema.tables]
    tables = [await parts.ask(parts.of_table(name)) for name in there]
    sizes = await parts.ask(parts.sizes()) or {}
    outbox = await parts.ask(parts.outbox()) if "deliveries" in there else None
    return Facts(
        where=database.where,
        backend=await parts.ask(parts.backend()) or database.engine.dialect.name,
        schema=schema,
        tables=tuple(replace(one, bytes=sizes.get(one.name)) for one in tables if one is not None),
        damage=None if path is None else await parts.ask(_damage(path, full=full)),
        total_bytes=health.file_bytes(path) if path is not None else sum(sizes.values()) if sizes else None,
        wal_bytes=None if path is None else health.wal_bytes(path),
        free_bytes=None if path is None else health.free_bytes(path),
        set_aside=() if path is None else tuple(health.set_aside_before(path)),
        cut_off=await parts.ask(parts.cut_off()) if "decisions" in there else None,
        undelivered=None if outbox is None else outbox.get(DeliveryStatus.PENDING, 0),
        undeliverable=None if outbox is None else outbox.get(DeliveryStatus.FAILED, 0),
        problems=tuple(parts.problems),
    )


class _Parts:
    """The questions, each asked by itself; what failed is in `problems`."""

    def __init__(self, database: Database, now: datetime) -> None:
        self._database = database
        self._now = now
        self._sqlite = database.engine.dialect.name == "sqlite"
        self.problems: list[str] = []

    async def ask(self, question: Awaitable[Found]) -> Found | None:
        """The answer; None where there is none."""
        try:
            return await question
        except HistoryUnavailable as error:
            if str(error) not in self.problems:  # a file that is no database fails at each
                self.problems.append(str(error))
            return None

    async def of_table(self, name: str) -> TableFacts:
        """The rows of each node and their times. An older schema lacks some columns."""
        async with self._database.reading() as session:
            connection = await session.connection()
            columns = await connection.run_sync(_columns, name)
            at = column(WRITTEN_AT[name], UtcDateTime) if name in WRITTEN_AT else None
            node = column("node") if "node" in columns else literal(None)
            ahead = literal(0) if at is None else case((at > self._now + TOLERANCE, 1), else_=0)
            span = (literal(None), literal(None)) if at is None else (func.min(at), func.max(at))
            query = select(node, func.count(), *span, func.sum(ahead)).select_from(table(name))
            found = (await session.execute(query.group_by(node) if "node" in columns else query)).all()
        times = [time for row in found for time in row[2:4] if time is not None]
        return TableFacts(
            name,
            rows=sum(row[1] for row in found),
            oldest=min(times, default=None),
            newest=max(times, default=None),
            future=sum(row[4] or 0 for row in found),
            nodes={row[0]: row[1] for row in found if row[0] is not None},
        )

    async def sizes(self) -> dict[str, int]:
        """Table to its bytes, the indexes with it; empty where the database does not tell."""
        if self._sqlite:
            query = (
                "SELECT m.tbl_name, sum(s.pgsize) FROM dbstat AS s JOIN sqlite_schema AS m ON m.name = s.name "
                "WHERE s.aggregate = TRUE GROUP BY m.tbl_name"
            )
        else:
            query = "SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables"
        try:
            async with self._database.reading() as session:
                return {row[0]: row[1] for row in (await session.execute(text(query))).all()}
        except HistoryUnavailable as error:
            if "no such table: dbstat" in str(error):  # an optional part of SQLite
                return {}
            raise

    async def backend(self) -> str:
        """The database program and its version."""
        if self._sqlite:
            return f"SQLite {sqlite3.sqlite_version}"
        async with self._database.reading() as session:
            return f"PostgreSQL {await session.scalar(text('SHOW server_version'))}"

    async def cut_off(self) -> int:
        """Changes that stayed intended."""
        query = select(func.count()).where(
            DecisionRow.status == Status.INTENDED.value, DecisionRow.at < self._now - IN_FLIGHT
        )
        async with self._database.reading() as session:
            return await session.scalar(query) or 0

    async def outbox(self) -> dict[str, int]:
        """Status to the notifications in it."""
        query = select(DeliveryRow.status, func.count()).group_by(DeliveryRow.status)
        async with self._database.reading() as session:
            return {row[0]: row[1] for row in (await session.execute(query)).all()}


async def _damage(path: Path, *, full: bool) -> tuple[str, ...]:
    return await asyncio.to_thread(_damage_now, path, "integrity_check" if full else "quick_check")


def _damage_now(path: Path, check: str) -> tuple[str, ...]:
    """In a connection of its own that can write nothing, even to a file whose log was left behind."""
    try:
        with closing(sqlite3.connect(unwritable.read_only_uri(path), uri=True, timeout=BUSY_S)) as connection:
            found = [str(row[0]) for row in connection.execute(f"PRAGMA {check}({MOST_FAULTS})")]
            orphans = connection.execute("PRAGMA foreign_key_check").fetchmany(MOST_FAULTS)
    except sqlite3.DatabaseError as error:
        if health.classify(error) is health.Trouble.CORRUPT:
            return (str(error),)
        raise HistoryUnavailable(f"cannot check the file {path}: {error}") from error
    found += [f"row {row} of {name} refers to a row of {other} that is not there" for name, row, other, _ in orphans]
    return tuple(line for line in found if line != "ok")


def _columns(connection: Connection, name: str) -> set[str]:
    return {one["name"] for one in inspect(connection).get_columns(name)}
