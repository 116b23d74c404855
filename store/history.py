"""Writing and reading the history.

Belongs here: the operations the daemon and the command line need, in domain terms. Never: SQL text in a caller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

from domain.decision import Decision, Mode, Reason, Status
from domain.errors import HistoryUnavailable
from domain.runtime import EngineRuntime
from store import database
from store.models import DecisionRow, Run


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision with its number in the history."""

    id: int
    decision: Decision


class History:
    """The decision history at one database URL. Every method raises HistoryUnavailable when the database does not
    answer.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine: AsyncEngine = database.create(url)
        self._session = async_sessionmaker(self._engine, expire_on_commit=False)

    async def open(self) -> None:
        """Create or migrate the schema."""
        await database.migrate(self._engine)

    async def close(self) -> None:
        await self._engine.dispose()

    async def start_run(self, at: datetime, node: str, engine_url: str, runtime: EngineRuntime) -> int:
        """Record a boot of the engine and its envelope; answers the run's number."""
        async with self._transaction() as session:
            run = Run(
                started_at=at,
                node=node,
                engine_url=engine_url,
                boot_id=runtime.boot_id,
                vllm_version=runtime.vllm_version,
                plugin_version=runtime.plugin_version,
                envelope=runtime.envelope,
            )
            session.add(run)
            await session.flush()
            return run.id

    async def add(self, run_id: int | None, decisions: Sequence[Decision]) -> list[int]:
        """Write decisions in one transaction; they are on disk when this returns. Answers their numbers."""
        async with self._transaction() as session:
            rows = [_to_row(run_id, decision) for decision in decisions]
            session.add_all(rows)
            await session.flush()
            return [row.id for row in rows]

    async def conclude(self, decision_id: int, status: Status, observed: float | None, error: str | None) -> None:
        """Write what became of an intended decision."""
        async with self._transaction() as session:
            statement = update(DecisionRow).where(DecisionRow.id == decision_id)
            await session.execute(statement.values(status=status.value, observed=observed, error=error))

    async def decisions(
        self, *, limit: int, after_id: int = 0, knob: str | None = None, changes_only: bool = False
    ) -> list[StoredDecision]:
        """The newest `limit` decisions after number `after_id`, oldest first."""
        query = select(DecisionRow, Run.boot_id).outerjoin(Run).where(DecisionRow.id > after_id)
        if knob is not None:
            query = query.where(DecisionRow.knob == knob)
        if changes_only:
            query = query.where(DecisionRow.status != Status.HOLD.value)
        async with self._transaction() as session:
            rows = (await session.execute(query.order_by(DecisionRow.id.desc()).limit(limit))).all()
            return [StoredDecision(row.id, _to_decision(row, boot_id)) for row, boot_id in reversed(rows)]

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncSession]:
        try:
            async with self._session.begin() as session:
                yield session
        except (SQLAlchemyError, OSError, ValueError) as error:
            # ValueError: a row written by a newer version holds a word that this one does not know.
            reason = str(getattr(error, "orig", None) or error).splitlines()[0]
            raise HistoryUnavailable(f"cannot use the history at {self.where}: {reason}") from error

    @property
    def where(self) -> str:
        """The file or the URL without its password, for messages."""
        return str(database.sqlite_path(self.url) or self._engine.url.render_as_string(hide_password=True))


def _to_row(run_id: int | None, decision: Decision) -> DecisionRow:
    return DecisionRow(
        run_id=run_id,
        at=decision.at,
        mode=decision.mode.value,
        policy=decision.policy,
        knob=decision.knob,
        old=decision.old,
        wanted=decision.wanted,
        requested=decision.requested,
        observed=decision.observed,
        status=decision.status.value,
        reason=decision.reason.value,
        sentence=decision.sentence,
        evidence=dict(decision.evidence),
        guards=list(decision.guards),
        error=decision.error,
    )


def _to_decision(row: DecisionRow, boot_id: str | None) -> Decision:
    evidence: dict[str, Any] = row.evidence
    return Decision(
        at=row.at,
        mode=Mode(row.mode),
        policy=row.policy,
        knob=row.knob,
        old=row.old,
        wanted=row.wanted,
        requested=row.requested,
        observed=row.observed,
        status=Status(row.status),
        reason=Reason(row.reason),
        sentence=row.sentence,
        evidence=evidence,
        guards=tuple(row.guards),
        error=row.error,
        boot_id=boot_id,
    )
