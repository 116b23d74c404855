"""Every number of emergency_purge. Purge 0.5, budget 4096, queue 100 are the seeds'.

Belongs here: names, bounds, defaults. Never: a rule.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from policies.base import PolicySettings
from policies.oom import OomSettings


class EmergencyPurgeSettings(PolicySettings):
    """What is done under real pressure on memory, and the way back in stages: `[policies.emergency_purge]`."""

    enabled: bool = True

    memory_ratio: float = Field(default=0.95, gt=0.0, le=1.0, description="effective memory over this is pressure")
    memory_clear_ratio: float = Field(default=0.92, gt=0.0, le=1.0, description="at or under this it is over")
    memory_for_s: float = Field(default=3.0, ge=0.0, description="so long before anything is done")
    memory_growth_ratio: float = Field(
        default=0.01,
        gt=0.0,
        le=1.0,
        description="with a full KV cache memory also has to have grown by this share of the card",
    )
    growth_window_s: float = Field(default=300.0, ge=10.0, description="over its lowest of so long")
    oom: OomSettings = Field(default_factory=OomSettings, description="the signature of running out of memory")
    crowded_hot_ratio: float = Field(
        default=0.9, gt=0.0, le=1.0, description="the hot tier holds this share of what is cached: it is full"
    )
    crowded_clear_ratio: float = Field(default=0.8, gt=0.0, le=1.0, description="at or under this it crowds nobody")
    crowded_kv_ratio: float = Field(default=0.95, gt=0.0, le=1.0, description="the KV cache is full from here on")
    crowded_preemptions_per_s: float = Field(default=0.2, gt=0.0, description="and as many requests are thrown out")
    crowded_for_s: float = Field(
        default=30.0, ge=0.0, description="so long, since the cap goes first: several cuts fit into it"
    )
    no_progress_s: float = Field(
        default=60.0, gt=0.0, description="an engine that stands still this long is not purged"
    )
    max_age_s: float = Field(default=3.0, ge=0.0, description="older readings are no ground for an emergency")

    purge_ratio: float = Field(default=0.5, gt=0.0, le=1.0, description="share of the free cached blocks")
    second_purge_ratio: float = Field(
        default=1.0, gt=0.0, le=1.0, description="when that did not relieve a crowded hot tier"
    )
    budget_tokens: int = Field(default=4096, ge=1, description="max_num_batched_tokens goes down to this")
    queue_limit: int = Field(default=100, ge=0, description="max_num_queued_reqs goes down to this")
    preempt_requests: int = Field(
        default=0, ge=0, description="running requests of each engine core to preempt when all else failed; 0: never"
    )
    effect_window_s: float = Field(default=30.0, gt=0.0, description="after a measure, before it is judged")
    relief_memory_ratio: float = Field(
        default=0.01, gt=0.0, le=1.0, description="effective memory that fell by this share of the card is relief"
    )
    relief_ratio: float = Field(
        default=0.2, gt=0.0, le=1.0, description="so are preemptions or the queue's age that fell by this part"
    )
    purge_interval_s: float = Field(default=120.0, ge=0.0, description="between two purges")
    max_purges_per_h: int = Field(default=3, ge=1, description="and as many preemptions")
    max_emergencies_per_h: int = Field(default=3, ge=1)
    longest_s: float = Field(
        default=1800.0, ge=60.0, description="then the other policies take over from the values in force"
    )

    hold_s: float = Field(default=60.0, ge=0.0, description="stage 1: everything stays, doubled by each relapse")
    max_hold_s: float = Field(default=900.0, ge=0.0)
    budget_step_tokens: int = Field(default=1024, ge=1, description="stage 2: the budget comes back by this")
    budget_step_s: float = Field(default=10.0, ge=0.0, description="every so many seconds")
    queue_hold_s: float = Field(default=10.0, ge=0.0, description="stage 3: so long before the queue limit goes")

    @model_validator(mode="after")
    def _in_order(self) -> EmergencyPurgeSettings:
        if self.memory_clear_ratio >= self.memory_ratio:
            raise ValueError(f"memory_clear_ratio must be under memory_ratio = {self.memory_ratio:g}")
        if self.crowded_clear_ratio >= self.crowded_hot_ratio:
            raise ValueError(f"crowded_clear_ratio must be under crowded_hot_ratio = {self.crowded_hot_ratio:g}")
        if self.hold_s > self.max_hold_s:
            raise ValueError(f"hold_s must not be over max_hold_s = {self.max_hold_s:g}")
        return self
