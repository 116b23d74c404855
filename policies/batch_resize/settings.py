"""Every number of batch_resize. Those of the seeds' tables are the defaults; docs/policies.md explains the rest.

Belongs here: names, bounds, defaults. Never: a rule.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from policies.aim import AimSettings
from policies.base import PolicySettings


class SeedSettings(PolicySettings):
    """The seeds' rule to the letter: `[policies.batch_resize.seed]`."""

    sla_s: float | None = Field(
        default=None, gt=0.0, description="SLA_THRESHOLD; without it the bound of the end-to-end objective"
    )
    shrink_factor: float = Field(default=0.9, gt=0.0, lt=1.0)
    growth_factor: float = Field(default=1.5, gt=1.0, le=4.0)
    idle_gpu_ratio: float = Field(default=0.75, gt=0.0, le=1.0, description="grows under this GPU utilisation")
    max_fragmentation_ratio: float = Field(default=0.1, ge=0.0, le=1.0, description="and under this fragmentation")


class ModelSettings(AimSettings):
    """The algorithm `model`: `[policies.batch_resize.model]`."""

    dead_band_ratio: float = Field(
        default=0.1, ge=0.0, le=1.0, description="a cut needs a prediction this far over what is aimed at"
    )
    budget_first_s: float = Field(
        default=20.0, ge=0.0, description="how long a breach that the token budget makes is left to the budget"
    )
    budget_still_s: float = Field(
        default=6.0, ge=0.0, description="and no longer where the budget stands still, or no model says whose it is"
    )


class BatchResizeSettings(PolicySettings):
    """How many requests run at once: `[policies.batch_resize]`."""

    enabled: bool = True
    algorithm: Literal["auto", "seed", "rules", "model"] = Field(
        default="auto", description="auto: model once the capacity model is fitted, rules before"
    )
    floor: int = Field(default=8, ge=1, description="never shrinks below this on its own")
    ladder_step: int = Field(default=8, ge=1, description="distance of rungs; the seeds' step of max_num_seqs")
    hardware_limit: int | None = Field(
        default=None, ge=1, description="MAX_HARDWARE_LIMIT; without it that of the GPU's profile, if it has one"
    )
    start_from_profile: bool = Field(
        default=True, description="begin at the profile's batch size while the cap is still the start-up value"
    )
    start_for_s: float = Field(default=60.0, ge=0.0, description="after the first work; later it is not proposed")

    growth_factor: float | None = Field(
        default=None, ge=1.1, le=2.5, description="without it the profile's (A100-80G: 1.6), else 1.5"
    )
    growth_factor_min: float = Field(default=1.3, ge=1.1, le=2.5)
    growth_factor_max: float = Field(default=1.8, ge=1.1, le=2.5)
    growth_factor_step: float = Field(default=0.2, gt=0.0, le=1.0)
    growth_factor_stable: float = Field(
        default=1.5, ge=1.1, le=2.5, description="what a factor outside the range becomes when the load swings"
    )
    swing_ratio: float = Field(default=0.3, gt=0.0, description="the load swings: its rate does, by over this")
    latency_rise_ratio: float = Field(
        default=0.1, gt=0.0, description="P99 rose by over this after a raise: the factor is lowered by a step"
    )
    latency_rise_for_s: float = Field(default=120.0, ge=0.0, description="a rise this long after a raise is its doing")
    growth_restore_s: float = Field(default=300.0, ge=0.0, description="then a step back towards the set factor")
    max_growth: int = Field(default=8, ge=1, description="largest step up of the rules; the model's is the factor")

    shrink_factor: float = Field(default=0.85, ge=0.5, le=0.95)
    steep_shrink_factor: float = Field(default=0.7, ge=0.3, le=0.9, description="when the objective is missed by far")
    steep_over: float = Field(default=3.0, ge=1.0, description="by far: this many times the allowed share")
    raise_interval_s: float = Field(default=2.0, ge=0.0)
    raise_window_s: float = Field(
        default=3.0, ge=0.0, description="a raise goes to the lowest recommendation of so long"
    )
    effect_delay_s: float = Field(default=3.0, ge=0.0, description="after a cut, before the next one")
    min_samples: int = Field(default=100, ge=1)
    kv_room_ratio: float = Field(default=0.9, gt=0.0, le=1.0, description="no growth at or above this KV cache usage")
    kv_full_ratio: float = Field(
        default=0.95, gt=0.0, le=1.0, description="preemptions at or above this usage are the cap's doing"
    )
    preemptions_per_s: float = Field(default=0.2, ge=0.0, description="as many with a full KV cache lower the cap")
    binding_ratio: float = Field(
        default=0.9, gt=0.0, le=1.0, description="the cap binds when this share of it is taken"
    )
    slo_margin_ratio: float = Field(
        default=0.5, ge=0.0, le=1.0, description="growth needs the share over the bound under this part of the allowed"
    )
    max_fragmentation_ratio: float = Field(
        default=0.1, gt=0.0, le=1.0, description="no growth at or above this fragmentation of the allocator, if known"
    )
    memory_cost_ratio: float = Field(
        default=0.05, gt=0.0, le=1.0, description="a raise that costs as much GPU memory per 8 requests is the last"
    )
    memory_recheck_s: float = Field(default=300.0, ge=0.0, description="after that long a raise is not held against it")
    refuted_s: float = Field(
        default=60.0, ge=0.0, description="how long a cap that missed the objective is avoided, doubled each time"
    )
    refuted_max_s: float = Field(default=900.0, ge=0.0)

    seed: SeedSettings = Field(default_factory=SeedSettings)
    model: ModelSettings = Field(default_factory=ModelSettings)

    @model_validator(mode="after")
    def _in_order(self) -> BatchResizeSettings:
        if self.steep_shrink_factor > self.shrink_factor:
            raise ValueError(f"steep_shrink_factor must not be over shrink_factor = {self.shrink_factor:g}")
        if not self.growth_factor_min <= self.growth_factor_stable <= self.growth_factor_max:
            raise ValueError(
                f"growth_factor_stable must lie from growth_factor_min = {self.growth_factor_min:g} "
                f"to growth_factor_max = {self.growth_factor_max:g}"
            )
        return self
