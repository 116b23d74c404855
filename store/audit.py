"""The audit: what operators asked for.

Belongs here: writing and reading it. Never: changing or deleting an entry (store/prune.py and the retention do by age).
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.audit import Action
from store.database import Database
from store.models import ActionRow

MOST_TARGET = 2000
"""Characters of a target and of a result: a path may be as long as the caller likes."""


async def add(session: AsyncSession, node: str, action: Action) -> None:
    """As Audit.add, within an open transaction."""
    if action.request_id is not None:
        # By its time first, which has an index; only this node writes its rows, so looking before writing is enough.
        there = select(ActionRow.id).where(ActionRow.at == action.at, ActionRow.node == node)
        if await session.scalar(there.where(ActionRow.request_id == action.request_id).limit(1)) is not None:
            return
    session.add(
        ActionRow(
            node=node,
            at=action.at,
            actor=action.actor,
            action=action.action,
            target=action.target[:MOST_TARGET],
            detail=dict(action.detail),
            result=action.result[:MOST_TARGET],
            request_id=action.request_id,
        )
    )
    await session.flush()


class Audit:
    """Every method raises HistoryUnavailable when the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, action: Action) -> None:
        """Write one; an action whose request was written already is not written again."""
        async with self._database.transaction() as session:
            await add(session, self._database.node, action)

    async def actions(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        action: str | None = None,
        node: str | None = None,
        limit: int = 1000,
    ) -> list[Action]:
        """The newest `limit` of those from `since` to before `until`, oldest first; None: no bound."""
        query = select(ActionRow)
        if since is not None:
            query = query.where(ActionRow.at >= since)
        if until is not None:
            query = query.where(ActionRow.at < until)
        if action is not None:
            query = query.where(ActionRow.action == action)
        if node is not None:
            query = query.where(ActionRow.node == node)
        async with self._database.reading() as session:
            rows = (await session.scalars(query.order_by(ActionRow.id.desc()).limit(limit))).all()
            return [_to_action(row) for row in reversed(rows)]


def _to_action(row: ActionRow) -> Action:
    return Action(
        at=row.at,
        actor=row.actor,
        action=row.action,
        target=row.target,
        result=row.result,
        detail=row.detail,
        request_id=row.request_id,
        node=row.node,
    )
