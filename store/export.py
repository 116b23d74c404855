"""Rows as plain values, batch by batch, for files that other programs read.

Belongs here: which columns a table has and of what kind, reading them in order. Never: file formats.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, Column, ColumnElement, Float, Integer, func, select

from store.ages import WRITTEN_AT
from store.columns import UtcDateTime
from store.database import Database
from store.models import Base
from store.packed import Packed

BATCH = 2000
"""Rows read at a time; a reader that is slow to take them holds nothing open meanwhile."""


class Exported(StrEnum):
    """The tables that can be exported."""

    DECISIONS = "decisions"
    READINGS = "readings"
    LEDGER = "ledger"
    ALERTS = "alerts"
    ACTIONS = "actions"
    RUNS = "runs"


class Kind(StrEnum):
    """What a column holds. Any of them may be None: not known."""

    INTEGER = "integer"
    NUMBER = "number"
    """Infinite: no limit."""
    TEXT = "text"
    TIME = "time"
    """With its zone, UTC."""
    JSON = "json"
    """A mapping or a list."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows: `since` to before `until`, of one node; None: no bound."""

    table: Exported
    since: datetime | None = None
    until: datetime | None = None
    node: str | None = None


def fields(table: Exported) -> tuple[Field, ...]:
    """The columns in their order."""
    return tuple(Field(column.name, _kind(column)) for column in Base.metadata.tables[table].columns)


async def batches(database: Database, wanted: Wanted, size: int = BATCH) -> AsyncIterator[Sequence[Sequence[Any]]]:
    """The rows in the order of their numbers, those that are there when it begins. Raises HistoryUnavailable."""
    table = Base.metadata.tables[wanted.table]
    number = table.c.id
    async with database.reading() as session:
        end = await session.scalar(select(func.max(number)))
    last = 0
    while end is not None and last < end:
        query = select(table).where(number > last, number <= end, *_conditions(wanted)).order_by(number).limit(size)
        async with database.reading() as session:
            rows = (await session.execute(query)).all()
        if not rows:
            return
        last = rows[-1].id
        yield [tuple(row) for row in rows]


def _conditions(wanted: Wanted) -> list[ColumnElement[bool]]:
    columns = Base.metadata.tables[wanted.table].c
    at, found = columns[WRITTEN_AT[wanted.table]], list[ColumnElement[bool]]()
    if wanted.since is not None:
        found.append(at >= wanted.since)
    if wanted.until is not None:
        found.append(at < wanted.until)
    if wanted.node is not None:
        found.append(columns.node == wanted.node)
    return found


def _kind(column: Column[Any]) -> Kind:
    match column.type:
        case UtcDateTime():
            return Kind.TIME
        case JSON() | Packed():
            return Kind.JSON
        case Integer():
            return Kind.INTEGER
        case Float():
            return Kind.NUMBER
    return Kind.TEXT
