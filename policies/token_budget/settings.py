"""Every number of token_budget. The table is the seeds'; docs/policies.md explains the rest.

Belongs here: names, bounds, defaults. Never: a rule.
"""

from __future__ import annotations

import math
from itertools import pairwise

from pydantic import Field, field_validator, model_validator

from policies.aim import AimSettings
from policies.base import PolicySettings
from policies.oom import OomSettings


class Row(PolicySettings):
    """One row of the table: what applies under this request rate."""

    below_requests_per_s: float = Field(default=math.inf, gt=0.0, description="the last row has none")
    delay_ms: float = Field(ge=0.0, le=100.0, description="the seeds' delay: admission_delay_ms")
    max_tokens: int = Field(ge=1, description="the seeds' max_tokens: max_num_batched_tokens")
    group_below_tokens: float = Field(
        ge=0.0, description="the seeds' window: length_grouping under this mean prompt length; inf always, 0 never"
    )


SEEDS_TABLE = (
    Row(below_requests_per_s=30.0, delay_ms=50.0, max_tokens=4096, group_below_tokens=math.inf),
    Row(below_requests_per_s=80.0, delay_ms=20.0, max_tokens=6144, group_below_tokens=6000.0),
    Row(delay_ms=10.0, max_tokens=8192, group_below_tokens=0.0),
)


class BudgetModelSettings(AimSettings):
    """The budget by the capacity model: `[policies.token_budget.model]`."""

    dead_band_ratio: float = Field(
        default=0.1, ge=0.0, le=1.0, description="a budget this close to the model's stays as it is"
    )


class TokenBudgetSettings(PolicySettings):
    """How many tokens one engine step computes, and how arrivals are gathered for it: `[policies.token_budget]`."""

    enabled: bool = True
    table: tuple[Row, ...] = Field(default=SEEDS_TABLE, min_length=1)
    hysteresis_ratio: float = Field(
        default=0.1, ge=0.0, lt=1.0, description="a row is entered at its bound and left this part under it"
    )
    row_for_s: float = Field(default=10.0, ge=0.0, description="another row must fit for so long")
    window: bool = Field(default=True, description="set admission_delay_ms and length_grouping by the table")
    delay_share: float = Field(
        default=0.1, gt=0.0, le=1.0, description="the delay is at most this part of a time-to-first-token bound"
    )

    ceiling_tokens: int = Field(
        default=8192, ge=64, description="the seeds' limit for an A100-80G, inside the envelope"
    )
    floor_tokens: int = Field(default=256, ge=1, description="never lowered under this on its own")
    step_tokens: int = Field(default=32, ge=1, description="budgets are multiples of it, the ends of the range aside")
    lowest_cut_ratio: float = Field(default=0.5, gt=0.0, lt=1.0, description="one cut keeps at least this part")
    effect_delay_s: float = Field(default=3.0, ge=0.0, description="after a change, before the next cut")
    raise_interval_s: float = Field(default=10.0, ge=0.0, description="after a change, before a raise")
    raise_window_s: float = Field(default=5.0, ge=0.0, description="a raise goes to the lowest budget of so long")
    raise_share: float = Field(
        default=0.125, gt=0.0, le=1.0, description="one raise is at most this part of the envelope"
    )
    min_samples: int = Field(default=100, ge=1, description="evidence that a raise under an objective needs")
    slo_margin_ratio: float = Field(
        default=0.5, ge=0.0, le=1.0, description="without the model a raise needs the share over the bound under this"
    )
    steep_over: float = Field(
        default=3.0, ge=1.0, description="by far: over this many times the allowed share the dead band holds no cut"
    )
    shrink_factor: float = Field(
        default=0.85, ge=0.5, le=0.95, description="without the model, when the inter-token objective is broken"
    )
    room_for_steps: float = Field(
        default=4.0, ge=1.0, description="and at once to this many times what an average step holds, where that is less"
    )
    refuted_s: float = Field(
        default=60.0, ge=0.0, description="how long a budget that missed the objective is avoided, doubled each time"
    )
    refuted_max_s: float = Field(default=900.0, ge=0.0)
    kv_full_ratio: float = Field(
        default=0.95, gt=0.0, le=1.0, description="preemptions at or above this KV usage are the cap's business"
    )

    oom: OomSettings = Field(default_factory=OomSettings)
    oom_step_tokens: int = Field(default=1024, ge=1, description="the seeds' step after an OOM")
    oom_floor_tokens: int = Field(
        default=4096, ge=1, description="an OOM lowers no further than this, or than what was in force before if less"
    )
    oom_cooldown_s: float = Field(default=30.0, ge=0.0, description="between two such steps")
    recover_after_s: float = Field(default=120.0, ge=0.0, description="without cause, before each step back")
    clear_memory_ratio: float = Field(
        default=0.95, gt=0.0, le=1.0, description="and effective memory under this, after an OOM"
    )

    model: BudgetModelSettings = Field(default_factory=BudgetModelSettings)

    long_prefill: bool = Field(default=True, description="limit a long prompt's share of a step where there is cause")
    long_prefill_tokens: int = Field(default=512, ge=1, description="the seeds' prefill_chunk_size")
    latency_imbalance: float = Field(
        default=3.0, gt=1.0, description="requests of one length differ by this factor: long prompts are in the way"
    )

    @field_validator("table")
    @classmethod
    def _ascending(cls, table: tuple[Row, ...]) -> tuple[Row, ...]:
        bounds = [row.below_requests_per_s for row in table]
        if any(low >= high for low, high in pairwise(bounds)) or not math.isinf(bounds[-1]):
            raise ValueError("rows must ascend in below_requests_per_s, and the last must have none")
        return table

    @model_validator(mode="after")
    def _in_order(self) -> TokenBudgetSettings:
        if self.floor_tokens > self.ceiling_tokens:
            raise ValueError(f"floor_tokens must not be over ceiling_tokens = {self.ceiling_tokens}")
        if self.clear_memory_ratio > self.oom.memory_ratio:
            raise ValueError(f"clear_memory_ratio must not be over oom.memory_ratio = {self.oom.memory_ratio:g}")
        return self
