"""A few values by name that the daemon must still know after a restart.

Belongs here: putting and getting them. Never: what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from store.database import Database
from store.models import KeptRow


async def put(session: AsyncSession, node: str, name: str, at: datetime, value: Mapping[str, Any] | None) -> None:
    """As Kept.put, within an open transaction."""
    await session.execute(delete(KeptRow).where(KeptRow.name == name, KeptRow.node.in_(_nodes(node))))
    if value is not None:
        session.add(KeptRow(node=node, name=name, at=at, value=dict(value)))
        await session.flush()


class Kept:
    """Every method raises HistoryUnavailable when the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, name: str, at: datetime, value: Mapping[str, Any] | None) -> None:
        """Remember a value under a name over restarts, in place of the one before; None forgets it."""
        async with self._database.transaction() as session:
            await put(session, self._database.node, name, at, value)

    async def get(self, name: str) -> Mapping[str, Any] | None:
        """The value that was kept under a name, None when there is none."""
        query = select(KeptRow).where(KeptRow.name == name, KeptRow.node.in_(_nodes(self._database.node)))
        async with self._database.reading() as session:
            row = (await session.scalars(query.order_by(KeptRow.node.desc()).limit(1))).first()
            return None if row is None else row.value

    async def all(self) -> list[tuple[str, datetime, Mapping[str, Any]]]:
        """Every value that is kept: its name, when it was put, and itself."""
        query = select(KeptRow).where(KeptRow.node.in_(_nodes(self._database.node))).order_by(KeptRow.node)
        async with self._database.reading() as session:
            return [(row.name, row.at, row.value) for row in (await session.scalars(query)).all()]


def _nodes(node: str) -> tuple[str, str]:
    """This node, and the empty one of what was kept before there were nodes."""
    return node, ""
