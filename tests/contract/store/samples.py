"""What the contract's tests write."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from domain.decision import Decision, Mode, Reason, Status
from domain.ledger import EnergySource, LedgerEntry
from domain.outcome import Outcome, Verdict
from store.rows import Chunk

AT = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
ENGINE = "http://127.0.0.1:8000"
OUTCOME = Outcome(
    Verdict.WORSE, "Worse.", {"instead_of": 8.0, "together_with": "hot_cache_ratio", "x": None}, undo=True
)
DECISION = Decision(
    at=AT,
    mode=Mode.AUTO,
    policy="batch_resize",
    knob="max_num_seqs",
    old=8,
    wanted=20,
    requested=16,
    observed=None,
    status=Status.INTENDED,
    reason=Reason.GROW_DEMAND,
    sentence="Growing 8 -> 16, 增加。",
    evidence={"waiting": 20, "gpu_utilization_ratio": None, "knee": "none"},
    guards=("clamped to 16",),
    diagnoses=("queue_bound: Much is spent waiting.",),
)


def decision(second: int = 0, **changes: Any) -> Decision:
    """One with a uid of its own, `second` after the first."""
    return replace(DECISION, uid=uuid4().hex, at=AT + timedelta(seconds=second), **changes)


def chunk(minute: int, body: bytes = bytes(range(256))) -> Chunk:
    """Half a minute's pictures; a body that is no text."""
    at = AT + timedelta(minutes=minute)
    return Chunk(at, at + timedelta(seconds=29), 30, body)


def entry(minute: int = 0, **changes: Any) -> LedgerEntry:
    """A minute of two GPUs at 300 W."""
    whole = LedgerEntry(
        at=(AT + timedelta(minutes=minute)).replace(second=0, microsecond=0),
        resolution_s=60,
        setting={"max_num_seqs": 64.0, "max_num_queued_reqs": None},
        energy_source=EnergySource.COUNTER,
        seconds=60.0,
        gpu_s=120.0,
        energy_j=36000.0,
        requests=10.0,
    )
    return replace(whole, **changes)
