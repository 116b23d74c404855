"""Proposals, decisions and what became of them.

Belongs here: reasons, and the three values of a knob that are never merged: wanted (the policy), requested (after the
guards), observed (read back from the engine). Never: how a decision is stored or carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum

from domain.outcome import Outcome

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
    GROW_IDLE_GPU = "grow_idle_gpu"
    SHRINK_INFERENCE_SLO = "shrink_inference_slo"
    SHRINK_PREEMPTING = "shrink_preempting"
    SHRINK_PREDICTED = "shrink_predicted"
    SHRINK_P99 = "shrink_p99"
    START_PROFILE = "start_profile"
    STATIC_BATCH = "static_batch"
    ROLLBACK_VALUES = "rollback_values"
    ROLLBACK_UNDONE = "rollback_undone"
    OPERATOR_OVERRIDE = "operator_override"
    SET_UP = "set_up"
    TABLE_ROW = "table_row"
    GROW_PREDICTED = "grow_predicted"
    SHRINK_OOM = "shrink_oom"
    RECOVER_STEP = "recover_step"
    LIMIT_LONG_PREFILL = "limit_long_prefill"
    SHED_QUEUE = "shed_queue"
    SHED_RELEASE = "shed_release"
    HOT_SHARE_HIGH = "hot_share_high"
    HOT_SHARE_LOW = "hot_share_low"
    HOT_RATIO_TOO_HIGH = "hot_ratio_too_high"
    UNDO_WORSE = "undo_worse"
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
    HOLD_MEMORY_COST = "hold_memory_cost"
    HOLD_FRAGMENTATION = "hold_fragmentation"
    HOLD_SLOTS_TAKEN = "hold_slots_taken"
    HOLD_RAISE_WINDOW = "hold_raise_window"
    HOLD_MODEL_LIMIT = "hold_model_limit"
    HOLD_BUDGET_FIRST = "hold_budget_first"
    HOLD_DEAD_BAND = "hold_dead_band"
    HOLD_HIT_RATE = "hold_hit_rate"
    EMERGENCY_MEMORY = "emergency_memory"
    EMERGENCY_OOM = "emergency_oom"
    EMERGENCY_CROWDED = "emergency_crowded"
    EMERGENCY_ASKED = "emergency_asked"
    NOT_RELIEVED = "not_relieved"
    RECOVERY_HOLD = "recovery_hold"
    RECOVERY_BUDGET = "recovery_budget"
    RECOVERY_QUEUE = "recovery_queue"
    RECOVERY_DONE = "recovery_done"
    HOLD_CALM = "hold_calm"
    HOLD_EMERGENCY = "hold_emergency"
    HOLD_RATE_LIMIT = "hold_rate_limit"
    HOLD_ASLEEP = "hold_asleep"
    HOLD_NO_PROGRESS = "hold_no_progress"
    HOLD_BLIND = "hold_blind"
    ABSTAIN_UNKNOWN = "abstain_unknown"
    SLO_PROPOSED = "slo_proposed"
    SLO_SCHEDULED = "slo_scheduled"
    MAINTENANCE_BEGAN = "maintenance_began"
    MAINTENANCE_ENDED = "maintenance_ended"


class Priority(IntEnum):
    """Who goes first where two proposals want one knob: the lower number."""

    EMERGENCY = 0
    OPERATOR = 1
    ROLLBACK = 2
    SHRINK = 3
    GROW = 4
    EXPLORE = 5
    HOLD = 6


@dataclass(frozen=True, slots=True)
class Proposal:
    """A policy's wish for one knob. `wanted` equal to the value in force is a hold; None is an abstention.

    `priority` None: by direction, a change that lets less work in is SHRINK, one that lets more in GROW, one that does
    neither EXPLORE.
    """

    policy: str
    knob: str
    wanted: float | None
    reason: Reason
    sentence: str
    evidence: Evidence = field(default_factory=dict)
    priority: Priority | None = None


class Status(StrEnum):
    """What became of a decision."""

    HOLD = "hold"
    RECORDED = "recorded"
    """Decided, not carried out: the mode or a guard forbids it."""
    NOTED = "noted"
    """An event that deciding rests on, no change of a knob: objectives were proposed, a maintenance window began."""
    INTENDED = "intended"
    """Written before the call to the engine is made; a row that stays so was cut off in between."""
    APPLIED = "applied"
    """Read back from the engine as requested."""
    DIVERGED = "diverged"
    """The engine answered, but reads another value than the requested one."""
    PARTIAL = "partial"
    """Some engine cores read the requested value back, others do not; `error` says what each reads."""
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
    diagnoses: tuple[str, ...] = ()
    """What was found wrong with the engine at that moment, each as `cause: sentence`."""
    outcome: Outcome | None = None
    """What came of a change that was applied; None until it is judged."""
    uid: str | None = None
    """Given before the decision is written, so that writing it twice makes one row; None in rows of older versions."""
    node: str = ""
    """Whose decision it is, where several daemons share one history; filled when it is read back."""
