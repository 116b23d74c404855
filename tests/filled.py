"""A history with rows of every kind, old ones and new ones.

Belongs here: those rows. Never: what a test expects of them beyond their number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from domain.audit import Action
from domain.decision import Decision, Mode, Reason, Status
from domain.knobs import NO_LIMIT
from store.database import database_url
from store.history import Chunk, History
from store.models import AlertRow, Base, DeliveryRow, LedgerRow, QuarantineRow, ReadingRow, SilenceRow
from tests.views import runtime

NOW = datetime.now(UTC).replace(microsecond=0)
OLD, LATE = NOW - timedelta(days=100), NOW - timedelta(minutes=10)
NODE = "gpu1:8000"


def decision(at: datetime, number: int, **changes: object) -> Decision:
    values: dict[str, object] = {
        "at": at,
        "mode": Mode.AUTO,
        "policy": "load_shed",
        "knob": "max_num_queued_reqs",
        "old": NO_LIMIT,
        "wanted": 100.0,
        "requested": 100.0,
        "observed": None,
        "status": Status.APPLIED,
        "reason": Reason.SHED_QUEUE,
        "sentence": 'Limited to 100: "30", waiting;\nsecond line, 队列.',
        "evidence": {"waiting": 30, "gpu_utilization_ratio": None},
        "guards": ("clamped",),
        "uid": f"{at:%m%d}-{number}",
    }
    return Decision(**(values | changes))  # type: ignore[arg-type]


async def fill(history: History, decisions: int = 3) -> None:
    """A run a hundred days old and one of today; at each of the two times, of every other kind, one row or
    `decisions` of them.
    """
    await history.open()
    for at in (OLD, LATE):
        run = await history.runs.start(at, "http://127.0.0.1:8000", runtime())
        await history.decisions.add(run, [decision(at, number) for number in range(decisions)])
        await history.recordings.add(run, Chunk(at, at, 1, b"x" * 100), keep=100)
        await history.audit.add(Action(at, "somebody", "rollback", "/api/v1/rollback", "ok", request_id=f"{at:%j}"))
        await history.kept.put("objectives", at, {"a": 1})
        async with history.database.transaction() as session:
            session.add_all(series(at, run))
            session.add_all(incidents(at))
            await session.flush()


def series(at: datetime, run: int) -> Sequence[Base]:
    return [
        ReadingRow(
            node=NODE, run_id=run, resolution_s=1, at=at, samples=1, means={"running": 3, "waiting": None}, highs=None
        ),
        LedgerRow(
            node=NODE,
            run_id=run,
            resolution_s=60,
            at=at,
            setting_key='{"max_num_seqs":8.0}',
            energy_source="counter",
            seconds=60.0,
            gap_s=0.0,
            idle_s=0.5,
            gpu_s=60.0,
            energy_j=18_000.25,
        ),
        QuarantineRow(moved_at=at, origin="decisions", row={"id": 1}),
    ]


def incidents(at: datetime) -> Sequence[Base]:
    """One that is over and one that still fires, one notification that went out and one that waits."""
    alerts = [
        AlertRow(
            node=NODE,
            fingerprint=name,
            rule="history",
            severity="warning",
            state=name,
            starts_at=at,
            updated_at=at,
            ends_at=at if name == "resolved" else None,
            value=None,
            labels={"alertname": "history"},
            annotations={},
        )
        for name in ("resolved", "firing")
    ]
    deliveries = [
        DeliveryRow(
            uid=f"{at:%j}-{status}",
            node=NODE,
            receiver="chat",
            group_key="{}",
            status=status,
            created_at=at,
            attempts=1,
            body={},
        )
        for status in ("delivered", "pending")
    ]
    silence = SilenceRow(node=NODE, matchers=[], starts_at=at, ends_at=at, created_by="somebody", comment="")
    return [*alerts, *deliveries, silence]


def filled(path: Path, decisions: int = 3) -> Path:
    """A file of these rows. Not to be called within an event loop."""

    async def write() -> None:
        history = History(database_url(str(path)), NODE)
        await fill(history, decisions)
        await history.close()

    asyncio.run(write())
    return path
