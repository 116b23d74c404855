"""The boots of the engines.

Belongs here: writing and reading them. Never: rows to values (store/rows.py).
"""

from __future__ import annotations

import math
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.runtime import EngineRuntime
from store.database import Database
from store.models import Run


async def start(session: AsyncSession, node: str, at: datetime, engine_url: str, runtime: EngineRuntime) -> int:
    """As Runs.start, within an open transaction."""
    same = (Run.node == node, Run.started_at == at, Run.boot_id == runtime.boot_id)
    if (there := await session.scalar(select(Run.id).where(*same).limit(1))) is not None:
        return there  # written before, and the answer was lost
    run = Run(
        started_at=at,
        node=node,
        engine_url=engine_url,
        boot_id=runtime.boot_id,
        vllm_version=runtime.vllm_version,
        plugin_version=runtime.plugin_version,
        envelope={n: value if math.isfinite(value) else None for n, value in runtime.envelope.items()},
    )
    session.add(run)
    await session.flush()
    return run.id


class Runs:
    """Every method raises HistoryUnavailable when the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def nodes(self) -> list[str]:
        """The nodes that have runs."""
        async with self._database.reading() as session:
            return list(await session.scalars(select(Run.node).distinct().order_by(Run.node)))

    async def start(self, at: datetime, engine_url: str, runtime: EngineRuntime) -> int:
        """Record a boot of the engine and its envelope; answers the run's number."""
        async with self._database.transaction() as session:
            return await start(session, self._database.node, at, engine_url, runtime)
