"""Rows to domain values and back.

Belongs here: one pair of functions for each kind of row. Never: queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from domain.decision import Decision, Mode, Reason, Status
from domain.outcome import Outcome, Verdict
from store.models import DecisionRow, RecordingRow, Run


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision with its number in the history."""

    id: int
    decision: Decision
    run_id: int | None = None


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A boot of an engine; `envelope` holds its start-up value of each knob, None for no limit."""

    id: int
    started_at: datetime
    node: str
    engine_url: str
    boot_id: str
    vllm_version: str
    plugin_version: str
    envelope: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Chunk:
    """`ticks` pictures from `from_at` to `to_at`, as bytes that the writer understands."""

    from_at: datetime
    to_at: datetime
    ticks: int
    body: bytes


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk with its number in the history."""

    id: int
    run_id: int | None
    chunk: Chunk


def to_values(node: str, run_id: int | None, decision: Decision) -> dict[str, Any]:
    """The columns of a decision; `boot_id` is the run's. One without a uid is given one."""
    return {
        "uid": decision.uid or uuid4().hex,
        "node": node,
        "run_id": run_id,
        "at": decision.at,
        "mode": decision.mode.value,
        "policy": decision.policy,
        "knob": decision.knob,
        "old": decision.old,
        "wanted": decision.wanted,
        "requested": decision.requested,
        "observed": decision.observed,
        "status": decision.status.value,
        "reason": decision.reason.value,
        "sentence": decision.sentence,
        "evidence": dict(decision.evidence),
        "guards": list(decision.guards),
        "error": decision.error,
        "diagnoses": list(decision.diagnoses),
        "outcome": None if decision.outcome is None else to_json(decision.outcome),
        "verdict": None if decision.outcome is None else decision.outcome.verdict.value,
    }


def to_decision(row: DecisionRow, boot_id: str | None) -> StoredDecision:
    """Raises ValueError at a word that this version does not know."""
    decision = Decision(
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
        evidence=row.evidence,
        guards=tuple(row.guards),
        error=row.error,
        boot_id=boot_id,
        diagnoses=tuple(row.diagnoses or ()),
        uid=row.uid,
        node=row.node,
        outcome=None if row.outcome is None else _to_outcome(row.outcome),
    )
    return StoredDecision(row.id, decision, row.run_id)


def to_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome as its column holds it."""
    return {**asdict(outcome), "verdict": outcome.verdict.value, "numbers": dict(outcome.numbers)}


def _to_outcome(stored: Mapping[str, Any]) -> Outcome:
    return Outcome(Verdict(stored["verdict"]), stored["sentence"], stored["numbers"], stored["undo"])


def to_run(row: Run) -> StoredRun:
    """All of a run."""
    return StoredRun(
        row.id,
        row.started_at,
        row.node,
        row.engine_url,
        row.boot_id,
        row.vllm_version,
        row.plugin_version,
        row.envelope,
    )


def to_chunk(row: RecordingRow) -> StoredChunk:
    """All of a chunk."""
    return StoredChunk(row.id, row.run_id, Chunk(row.from_at, row.to_at, row.ticks, row.body))
