"""A named cause for something that is wrong, with its evidence.

Belongs here: the causes of the seeds' fault trees as values. Never: how a cause is found (policies/diagnosis).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from domain.decision import Evidence


class Cause(StrEnum):
    """Leaves of the fault trees. What an operator can look up in docs/troubleshooting.md by this name."""

    BUDGET_BEYOND_CARD = "budget_beyond_card"
    HOT_RATIO_TOO_HIGH = "hot_ratio_too_high"
    GROWTH_TOO_FAST = "growth_too_fast"
    GROWTH_TOO_SLOW = "growth_too_slow"
    HOT_MIX_ABOVE_RATIO = "hot_mix_above_ratio"
    REGROUPING = "regrouping"
    LENGTH_SPREAD = "length_spread"
    SERIAL_FALLBACK = "serial_fallback"
    KV_THRASHING = "kv_thrashing"
    QUEUE_BOUND = "queue_bound"
    INFERENCE_BOUND = "inference_bound"
    NO_PROGRESS = "no_progress"
    ENGINE_DOWN = "engine_down"
    ENGINE_ASLEEP = "engine_asleep"
    BLIND = "blind"
    ALLOCATOR_PRESSURE = "allocator_pressure"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`action` says what is being done or what a person should do; None where nothing is live."""

    cause: Cause
    sentence: str
    evidence: Evidence = field(default_factory=dict)
    action: str | None = None
