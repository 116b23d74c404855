"""The decisions: written before they are carried out, concluded and judged afterwards.

Every write may be repeated: a decision is known by its uid. Belongs here: writing them, reading them by what they are
looked for by. Never: rows to values (store/rows.py), what was in force at a moment (store/moments.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypedDict, Unpack

from sqlalchemy import ColumnElement, Select, SQLColumnExpression, func, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.decision import Decision, Reason, Status
from domain.outcome import Outcome, Verdict
from store.columns import UtcDateTime
from store.database import Database
from store.inserting import insert_into
from store.models import DecisionRow, Run
from store.rows import StoredDecision, StoredRun, to_decision, to_json, to_run, to_values

SHORT = timedelta(days=31)
"""A span whose times are so few that reading them all is quick beside reading every number."""
HIGHEST = 2**31 - 1
"""No number lies beyond it: PostgreSQL's integer."""
AT_ONCE = 1000
"""So many uids in one question: SQLite and PostgreSQL take some 32,000 values."""


class Which(TypedDict, total=False):
    """What decisions are looked for by. What is left out or None does not count."""

    after_id: int | None
    before_id: int | None
    """To read page by page, from the newest back."""
    since: datetime | None
    until: datetime | None
    """The moment itself no longer counts."""
    node: str | None
    knob: str | None
    policy: str | None
    reason: Reason | None
    status: Status | None
    verdict: Verdict | None
    changes_only: bool
    """All but holds."""


async def add(session: AsyncSession, node: str, run_id: int | None, decisions: Sequence[Decision]) -> list[int]:
    """As Decisions.add, within an open transaction."""
    rows = [to_values(node, run_id, decision) for decision in decisions]
    numbers: dict[str, int] = {}
    for first in range(0, len(rows), AT_ONCE):
        some = rows[first : first + AT_ONCE]
        await session.execute(insert_into(session, DecisionRow).on_conflict_do_nothing(index_elements=["uid"]), some)
        query = select(DecisionRow.uid, DecisionRow.id).where(DecisionRow.uid.in_([row["uid"] for row in some]))
        numbers |= {uid: number for uid, number in (await session.execute(query)).all() if uid is not None}
    return [numbers[row["uid"]] for row in rows]


async def conclude(session: AsyncSession, uid: str, status: Status, observed: float | None, error: str | None) -> None:
    """Write what became of an intended decision, within an open transaction."""
    statement = update(DecisionRow).where(DecisionRow.uid == uid)
    await session.execute(statement.values(status=status.value, observed=observed, error=error))


async def judge(session: AsyncSession, uid: str, outcome: Outcome) -> None:
    """Write what came of a change, within an open transaction."""
    statement = update(DecisionRow).where(DecisionRow.uid == uid)
    await session.execute(statement.values(outcome=to_json(outcome), verdict=outcome.verdict.value))


class Decisions:
    """Every method raises HistoryUnavailable when the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, run_id: int | None, decisions: Sequence[Decision]) -> list[int]:
        """Write decisions in one transaction; they are on disk when this returns. Answers their numbers. One whose uid
        is there already stays as it is there.
        """
        async with self._database.transaction() as session:
            return await add(session, self._database.node, run_id, decisions)

    async def conclude(self, uid: str, status: Status, observed: float | None, error: str | None) -> None:
        """Write what became of an intended decision."""
        async with self._database.transaction() as session:
            await conclude(session, uid, status, observed, error)

    async def judge(self, outcomes: Mapping[str, Outcome]) -> None:
        """Write what came of changes, by uid."""
        async with self._database.transaction() as session:
            for uid, outcome in outcomes.items():
                await judge(session, uid, outcome)

    async def select(self, *, limit: int | None = None, **which: Unpack[Which]) -> list[StoredDecision]:
        """The newest `limit` decisions (None: all) of those, oldest first. The newest have the highest numbers."""
        wanted = _ids(which, self._database.engine.dialect.name).order_by(DecisionRow.id.desc()).limit(limit)
        async with self._database.reading() as session:
            rows = (await session.execute(_of(wanted).order_by(DecisionRow.id))).all()
            return [to_decision(row, boot_id) for row, boot_id in rows]

    async def next(self, **which: Unpack[Which]) -> StoredDecision | None:
        """The oldest of those: with `after_id`, the one that came next."""
        wanted = _ids(which, self._database.engine.dialect.name).order_by(DecisionRow.id).limit(1)
        async with self._database.reading() as session:
            found = (await session.execute(_of(wanted))).one_or_none()
            return None if found is None else to_decision(*found)

    async def nodes(self, since: datetime | None = None) -> list[str]:
        """The nodes that have decisions, or some from `since` on."""
        query = select(DecisionRow.node).distinct().order_by(DecisionRow.node)
        if since is not None:
            query = query.where(DecisionRow.at >= since)
        async with self._database.reading() as session:
            return list(await session.scalars(query))

    async def words(self, of: Literal["knob", "policy"]) -> list[str]:
        """The knobs or the policies that there are decisions of."""
        column = DecisionRow.knob if of == "knob" else DecisionRow.policy
        async with self._database.reading() as session:
            return list(await session.scalars(select(column).distinct().order_by(column)))

    async def number(self, uid: str) -> int | None:
        """The number of the decision of that uid; None: there is none."""
        async with self._database.reading() as session:
            return await session.scalar(select(DecisionRow.id).where(DecisionRow.uid == uid))

    async def one(self, number: int) -> tuple[StoredDecision, StoredRun | None] | None:
        """One decision and the run that it belongs to; None when there is no such number."""
        if not 0 < number <= HIGHEST:
            return None
        query = select(DecisionRow, Run).outerjoin(Run).where(DecisionRow.id == number)
        async with self._database.reading() as session:
            found = (await session.execute(query)).one_or_none()
            if found is None:
                return None
            row, run = found
            return to_decision(row, run.boot_id if run else None), to_run(run) if run else None


def _of(numbers: Select[int]) -> Select[DecisionRow, str]:
    """Those decisions, and their boot."""
    return select(DecisionRow, Run.boot_id).outerjoin(Run).where(DecisionRow.id.in_(numbers))


def _ids(which: Which, dialect: str) -> Select[int]:
    """The numbers alone, so that finding them reads ix_decisions_find, which holds all that is asked, and no row.

    SQLite would take the index on `at` for a span, however long, and read every row of it. Kept from that it reads at
    worst one narrow index from end to end, 200,000 decisions in 40 ms, whatever is asked; of a short span the part from
    its lowest to its highest number, which the index on `at` tells.
    """
    if dialect != "sqlite":
        return select(DecisionRow.id).where(*_conditions(which, DecisionRow.at))
    wanted = select(DecisionRow.id).where(*_conditions(which, literal_column("+decisions.at", UtcDateTime())))
    since, until = which.get("since"), which.get("until")
    if since is None or until is None or until - since > SHORT:
        return wanted
    lowest, highest = (
        select(end(DecisionRow.id)).where(DecisionRow.at >= since, DecisionRow.at < until).correlate(None)
        for end in (func.min, func.max)
    )
    return wanted.where(DecisionRow.id.between(lowest.scalar_subquery(), highest.scalar_subquery()))


def _conditions(which: Which, at: SQLColumnExpression[datetime]) -> list[ColumnElement[bool]]:
    found = [
        column == value
        for column, value in (
            # SQLite looks in this order: what few rows have comes first, what all of them may have last.
            (DecisionRow.verdict, which.get("verdict")),
            (DecisionRow.status, which.get("status")),
            (DecisionRow.reason, which.get("reason")),
            (DecisionRow.policy, which.get("policy")),
            (DecisionRow.knob, which.get("knob")),
            (DecisionRow.node, which.get("node")),
        )
        if value is not None
    ]
    if (after := which.get("after_id")) is not None:
        found.append(DecisionRow.id > min(max(after, 0), HIGHEST))
    if (before := which.get("before_id")) is not None:
        found.append(DecisionRow.id < min(max(before, 0), HIGHEST))
    if (since := which.get("since")) is not None:
        found.append(at >= since)
    if (until := which.get("until")) is not None:
        found.append(at < until)
    if which.get("changes_only"):
        found.append(DecisionRow.status != Status.HOLD.value)
    return found
