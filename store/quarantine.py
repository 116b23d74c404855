"""Rows that a wrong clock dated into the future: moved out of their tables whole, so that no question by time meets
them.

Runs are not moved: rows refer to them. Nor is what alerts rest on, which is told whatever its time.

Belongs here: moving. Never: which tables (store/told.py), what time it is (domain/timeline.py), deleting.
"""

from __future__ import annotations

import base64
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.stretch import RESOLUTIONS_S
from store import rollup
from store.ages import WRITTEN_AT
from store.models import Base, QuarantineRow, ReadingRow

logger = logging.getLogger(__name__)

MOST = 200
NO_LIMIT = "no limit"


def step(
    row: type[Base], nodes: Sequence[str], limit: datetime, now: datetime
) -> Callable[[AsyncSession], Awaitable[int]]:
    """A piece of moving what these nodes dated after `limit`, within an open transaction; answers how many rows."""
    table = Base.metadata.tables[row.__tablename__]
    ahead: ColumnElement[bool] = table.c.node.in_(nodes) & (table.c[WRITTEN_AT[table.name]] > limit)
    if row is ReadingRow:
        ahead &= table.c.resolution_s.in_(RESOLUTIONS_S)  # the index begins with it

    async def move(session: AsyncSession) -> int:
        found = (await session.execute(select(table).where(ahead).limit(MOST))).mappings().all()
        if not found:
            return 0
        apart = [{"moved_at": now, "origin": table.name, "row": _as_json(one)} for one in found]
        await session.execute(insert(QuarantineRow), apart)
        await session.execute(delete(table).where(table.c.id.in_([one["id"] for one in found])))
        if row is ReadingRow:
            await rollup.step_back(session, nodes)
        logger.warning(
            "history: %d rows of %s were dated after %s by a wrong clock and set apart (table quarantine)",
            len(found),
            table.name,
            limit.isoformat(timespec="minutes"),
        )
        return len(found)

    return move


def _as_json(row: Mapping[Any, Any]) -> dict[str, Any]:
    """All columns; a time as ISO 8601, bytes as base64, "no limit" as an export has it."""
    return {str(name): _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):  # JSON has no word for it
        return NO_LIMIT if value == math.inf else None
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
