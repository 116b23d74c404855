"""How old a row is, and what of the old is no longer needed: one rule for the retention and for what operators delete.

Belongs here: conditions. Never: deleting (store/retention.py, store/prune.py).
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, and_, exists, func, not_, or_, select
from sqlalchemy.orm import aliased

from domain.incident import DeliveryStatus
from store.models import (
    AlertRow,
    Base,
    DecisionRow,
    DeliveryRow,
    LedgerRow,
    ReadingRow,
    RecordingRow,
    Run,
    SilenceRow,
)

WRITTEN_AT = {
    "runs": "started_at",
    "decisions": "at",
    "recordings": "to_at",
    "readings": "at",
    "ledger": "at",
    "alerts": "starts_at",
    "deliveries": "created_at",
    "actions": "at",
    "kept": "at",
    "quarantine": "moved_at",
}
"""Table to the column with the time of what it holds. A silence may lie ahead, so that table has none."""
REFERRING = (DecisionRow, RecordingRow, ReadingRow, LedgerRow)
"""Rows that belong to a run. Each table has an index that begins with `run_id`: it is looked at before a run may go."""


def old(table: str, before: datetime) -> ColumnElement[bool]:
    """What of a table is old and no longer needed: never what fires, what waits to be delivered, what rows refer to."""
    match table:
        case Run.__tablename__:
            return _old_runs(before)
        case AlertRow.__tablename__:
            return AlertRow.ends_at < before  # unknown while it fires, so not met
        case SilenceRow.__tablename__:
            return SilenceRow.ends_at < before
        case DeliveryRow.__tablename__:
            return and_(DeliveryRow.created_at < before, DeliveryRow.status != DeliveryStatus.PENDING.value)
    return Base.metadata.tables[table].c[WRITTEN_AT[table]] < before


def _old_runs(before: datetime) -> ColumnElement[bool]:
    """Nor the newest of each node: a daemon that is running may write the next row for it."""
    of_any = aliased(Run)
    newest = select(func.max(of_any.id)).group_by(of_any.node)
    needed = [exists().where(row.run_id == Run.id) for row in REFERRING]
    return and_(Run.started_at < before, Run.id.not_in(newest), not_(or_(*needed)))
