"""Alerts: incidents, the outbox with the notifications about them, silences.

An incident's change, the notifications that it makes due and the state of whoever decided so are written in one
transaction: a crash loses all of it or nothing. Every write may be repeated. Belongs here: that, and reading it. Never:
rows to values (store/alert_rows.py), when somebody is told of what (alerts/).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.incident import Delivery, DeliveryStatus, Incident, IncidentState, Notification
from domain.silence import Silence
from store import kept
from store.alert_rows import (
    delivery_values,
    incident_values,
    silence_values,
    to_delivery,
    to_incident,
    to_silence,
)
from store.database import Database
from store.decisions import AT_ONCE
from store.inserting import insert_into
from store.models import AlertRow, DeliveryRow, SilenceRow

STATE = "alerts"
"""Under this name the state is kept."""
_KEY = ("node", "fingerprint", "starts_at")
_CHANGES = ("severity", "state", "updated_at", "ends_at", "value", "annotations")
_FARES = ("status", "not_before", "delivered_at", "attempts", "error", "body")
"""`body` too: a notification takes up others where too many wait."""


async def save(
    session: AsyncSession,
    node: str,
    at: datetime,
    incidents: Sequence[Incident],
    notifications: Sequence[Notification],
    state: Mapping[str, Any] | None,
) -> None:
    """As Alerts.save, within an open transaction."""
    if incidents:
        insert = insert_into(session, AlertRow)
        changes = {name: insert.excluded[name] for name in _CHANGES}
        is_open = AlertRow.state != IncidentState.RESOLVED.value  # what is over stays over
        upsert = insert.on_conflict_do_update(index_elements=_KEY, set_=changes, where=is_open)
        await session.execute(upsert, [incident_values(node, one) for one in incidents])
    if notifications:
        rows = [delivery_values(node, Delivery(one)) for one in notifications]
        await session.execute(insert_into(session, DeliveryRow).on_conflict_do_nothing(index_elements=["uid"]), rows)
    if state is not None:
        await kept.put(session, node, STATE, at, state)


async def over(session: AsyncSession, notifications: Sequence[Notification]) -> set[str]:
    """The uids of those that were told or given up already: whoever crashed before it saved that says it again."""
    uids = [one.uid for one in notifications]
    done = DeliveryRow.status != DeliveryStatus.PENDING.value
    found = set[str]()
    for first in range(0, len(uids), AT_ONCE):
        query = select(DeliveryRow.uid).where(DeliveryRow.uid.in_(uids[first : first + AT_ONCE]), done)
        found.update(await session.scalars(query))
    return found


async def mark(session: AsyncSession, node: str, deliveries: Sequence[Delivery]) -> None:
    """As Alerts.mark, within an open transaction."""
    if not deliveries:
        return
    insert = insert_into(session, DeliveryRow)
    fares = {name: insert.excluded[name] for name in _FARES}
    waits = DeliveryRow.status == DeliveryStatus.PENDING.value
    upsert = insert.on_conflict_do_update(index_elements=["uid"], set_=fares, where=waits)
    await session.execute(upsert, [delivery_values(node, one) for one in deliveries])


async def put_silence(session: AsyncSession, node: str, silence: Silence) -> int:
    """As Alerts.put_silence, within an open transaction."""
    values = silence_values(node, silence)
    same = [getattr(SilenceRow, name) == value for name, value in values.items() if name != "matchers"]
    for row in await session.scalars(select(SilenceRow).where(*same)):
        if row.matchers == values["matchers"]:
            return row.id
    row = SilenceRow(**values)
    session.add(row)
    await session.flush()
    return row.id


async def end_silence(session: AsyncSession, node: str, number: int, at: datetime) -> bool:
    """As Alerts.end_silence, within an open transaction."""
    one = (SilenceRow.node == node, SilenceRow.id == number, SilenceRow.ends_at >= at)
    ended = await session.execute(update(SilenceRow).where(*one).values(ends_at=at).returning(SilenceRow.id))
    return ended.first() is not None


LATELY = timedelta(minutes=1)
"""Well over the time between two writings of the state of who was told what."""


class Alerts:
    """Of this node. Every method raises HistoryUnavailable when the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(
        self,
        at: datetime,
        incidents: Sequence[Incident] = (),
        notifications: Sequence[Notification] = (),
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Incidents that began or changed, notifications that are due for it, and the state after it; None leaves that
        as it was. A notification that is there already stays as it is there.
        """
        async with self._database.transaction() as session:
            await save(session, self._database.node, at, incidents, notifications, state)

    async def mark(self, deliveries: Sequence[Delivery]) -> None:
        """How far the telling of these got. One that is not there is put there; one that is over stays as it is."""
        async with self._database.transaction() as session:
            await mark(session, self._database.node, deliveries)

    async def put_silence(self, silence: Silence) -> int:
        """Its number; that of one that is there where it is the same."""
        async with self._database.transaction() as session:
            return await put_silence(session, self._database.node, silence)

    async def end_silence(self, number: int, at: datetime) -> bool:
        """It counts no longer from `at` on; False where it did not anyway, or there is none of that number."""
        async with self._database.transaction() as session:
            return await end_silence(session, self._database.node, number, at)

    async def state(self) -> Mapping[str, Any] | None:
        """The state that was saved last; None: never."""
        return await kept.Kept(self._database).get(STATE)

    async def firing(self) -> list[Incident]:
        """Those that are not over, oldest first."""
        query = select(AlertRow).where(
            AlertRow.node == self._database.node, AlertRow.state == IncidentState.FIRING.value
        )
        async with self._database.reading() as session:
            return [to_incident(row) for row in await session.scalars(query.order_by(AlertRow.id))]

    async def lately_over(self) -> list[Incident]:
        """Those that ended within LATELY of the last word there is: the state of who was told may be older."""
        own = AlertRow.node == self._database.node
        async with self._database.reading() as session:
            last = await session.scalar(select(func.max(AlertRow.updated_at)).where(own))
            if last is None:
                return []
            ended = (AlertRow.state == IncidentState.RESOLVED.value) & (AlertRow.updated_at >= last - LATELY)
            return [to_incident(row) for row in await session.scalars(select(AlertRow).where(own, ended))]

    async def due(self) -> list[Delivery]:
        """What nobody was told yet, in the order in which it has to be told."""
        query = select(DeliveryRow).where(
            DeliveryRow.node == self._database.node, DeliveryRow.status == DeliveryStatus.PENDING.value
        )
        async with self._database.reading() as session:
            return [to_delivery(row) for row in await session.scalars(query.order_by(DeliveryRow.id))]

    async def silences(self, now: datetime) -> list[Silence]:
        """Those that count at `now` or will, oldest first."""
        query = select(SilenceRow).where(SilenceRow.node == self._database.node, SilenceRow.ends_at > now)
        async with self._database.reading() as session:
            return [to_silence(row) for row in await session.scalars(query.order_by(SilenceRow.id))]

    async def incidents(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        state: IncidentState | None = None,
        node: str | None = None,
        limit: int = 1000,
    ) -> list[Incident]:
        """The newest `limit` of those that began from `since` to before `until`, oldest first, of every node unless one
        is named; None: no bound.
        """
        query = select(AlertRow)
        if since is not None:
            query = query.where(AlertRow.starts_at >= since)
        if until is not None:
            query = query.where(AlertRow.starts_at < until)
        if state is not None:
            query = query.where(AlertRow.state == state.value)
        if node is not None:
            query = query.where(AlertRow.node == node)
        async with self._database.reading() as session:
            rows = (await session.scalars(query.order_by(AlertRow.id.desc()).limit(limit))).all()
            return [to_incident(row) for row in reversed(rows)]

    async def deliveries(
        self,
        *,
        receiver: str | None = None,
        status: DeliveryStatus | None = None,
        limit: int = 1000,
    ) -> list[Delivery]:
        """The newest `limit` notifications of those, oldest first."""
        query = select(DeliveryRow).where(DeliveryRow.node == self._database.node)
        if receiver is not None:
            query = query.where(DeliveryRow.receiver == receiver)
        if status is not None:
            query = query.where(DeliveryRow.status == status.value)
        async with self._database.reading() as session:
            rows = (await session.scalars(query.order_by(DeliveryRow.id.desc()).limit(limit))).all()
            return [to_delivery(row) for row in reversed(rows)]
