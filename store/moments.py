"""What was in force at a moment.

Belongs here: the engine's values as the decisions tell them. Never: what was measured then (store/readings.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, String, column, func, or_, select, values
from sqlalchemy.ext.asyncio import AsyncSession

from store.database import Database
from store.models import DecisionRow, Run
from store.rows import StoredDecision, StoredRun, to_decision, to_run


@dataclass(frozen=True, slots=True)
class InForce:
    """A knob's value; None: no limit, or, where `known` is false, it cannot be said."""

    knob: str
    value: float | None
    known: bool
    decision: StoredDecision | None
    """The last one that read the knob on this boot; None: there was none, so the value is the one it started with."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One engine at one moment; `run` is the newest that had begun. Whether it still ran, the readings tell."""

    run: StoredRun
    values: tuple[InForce, ...]


class Moments:
    """Every method raises HistoryUnavailable when the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def at(self, moment: datetime, node: str | None = None) -> list[Moment]:
        """What was in force on one node, or on each; a node that had no engine by then is left out."""
        begun = select(func.max(Run.id)).where(Run.started_at <= moment).group_by(Run.node)
        if node is not None:
            begun = begun.where(Run.node == node)
        async with self._database.reading() as session:
            newest = (await session.scalars(select(Run).where(Run.id.in_(begun)).order_by(Run.node))).all()
            return [Moment(to_run(run), await _values(session, run, moment)) for run in newest]


async def _values(session: AsyncSession, run: Run, moment: datetime) -> tuple[InForce, ...]:
    """A boot has several runs where the daemon was restarted: the engine kept its values over that."""
    same = (Run.node == run.node, Run.boot_id == run.boot_id, Run.started_at <= moment)
    runs = (await session.scalars(select(Run.id).where(*same).order_by(Run.id.desc()))).all()
    told: dict[str, InForce] = {}
    for run_id in runs:
        untold = [knob for knob in run.envelope if knob not in told]
        if untold:
            rows = await session.scalars(_last_reads(run_id, untold, moment))
            told |= {row.knob: _told_by(to_decision(row, None)) for row in rows}
    return tuple(told.get(knob) or InForce(knob, startup, True, None) for knob, startup in run.envelope.items())


def _last_reads(run_id: int, knobs: Sequence[str], moment: datetime) -> Select[DecisionRow]:
    """The newest decision that read each knob; those without one are left out. One question, as a knob's own is quick
    and asking takes long.
    """
    asked = values(column("knob", String), name="asked").data([(knob,) for knob in knobs]).cte()
    read = or_(DecisionRow.old.is_not(None), DecisionRow.observed.is_not(None), DecisionRow.requested.is_not(None))
    own = select(DecisionRow.id).where(DecisionRow.run_id == run_id, DecisionRow.knob == asked.c.knob, read)
    own = own.where(DecisionRow.at <= moment).order_by(DecisionRow.at.desc(), DecisionRow.id.desc()).limit(1)
    newest = select(own.correlate(asked).scalar_subquery()).select_from(asked)
    return select(DecisionRow).where(DecisionRow.id.in_(newest))


def _told_by(stored: StoredDecision) -> InForce:
    """What was asked for and never read back may hold or not."""
    one = stored.decision
    value = one.observed if one.observed is not None or one.requested is not None else one.old
    return InForce(one.knob, _finite(value), value is not None, stored)


def _finite(value: float | None) -> float | None:
    return None if value == float("inf") else value
