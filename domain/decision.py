"""Proposals, decisions and what became of them.

Belongs here: reasons, and the three values of a knob that are never merged: wanted (the policy), requested (after the
guards), observed (read back from the engine). Never: how a decision is stored or carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

Evidence = Mapping[str, float | str | None]


class Mode(StrEnum):
    """What the governor may do."""

    AUTO = "auto"
    OBSERVE = "observe"
    STATIC = "static"
    MANUAL = "manual"
    PAUSED = "paused"


class Reason(StrEnum):
    """Why a policy proposes what it proposes."""

    GROW_DEMAND = "grow_demand"
    SHRINK_INFERENCE_SLO = "shrink_inference_slo"
    STATIC_BATCH = "static_batch"
    HOLD_STEADY = "hold_steady"
    HOLD_NO_DEMAND = "hold_no_demand"
    HOLD_AT_LIMIT = "hold_at_limit"
    HOLD_AT_FLOOR = "hold_at_floor"
    HOLD_DRAINING = "hold_draining"
    HOLD_EFFECT_PENDING = "hold_effect_pending"
    HOLD_KV_FULL = "hold_kv_full"
    HOLD_PREEMPTING = "hold_preempting"
    HOLD_SLO_MARGIN = "hold_slo_margin"
    HOLD_REFUTED = "hold_refuted"
    HOLD_THIN_EVIDENCE = "hold_thin_evidence"
    HOLD_QUEUE_BREACH = "hold_queue_breach"
    ABSTAIN_UNKNOWN = "abstain_unknown"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A policy's wish for one knob. `wanted` equal to the value in force is a hold; None is an abstention."""

    policy: str
    knob: str
    wanted: float | None
    reason: Reason
    sentence: str
    evidence: Evidence = field(default_factory=dict)


class Status(StrEnum):
    """What became of a decision."""

    HOLD = "hold"
    RECORDED = "recorded"
    """Decided, not carried out: the mode or a guard forbids it."""
    INTENDED = "intended"
    """Written before the call to the engine is made; a row that stays so was cut off in between."""
    APPLIED = "applied"
    """Read back from the engine as requested."""
    DIVERGED = "diverged"
    """The engine answered, but reads another value than the requested one."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Decision:
    """One knob, one tick. `requested` is None where nothing was to be changed."""

    at: datetime
    mode: Mode
    policy: str
    knob: str
    old: float | None
    wanted: float | None
    requested: float | None
    observed: float | None
    status: Status
    reason: Reason
    sentence: str
    evidence: Evidence
    guards: tuple[str, ...] = ()
    """What the arbiter changed or withheld, one sentence each."""
    error: str | None = None
    boot_id: str | None = None
