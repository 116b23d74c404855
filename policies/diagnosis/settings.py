"""Every threshold of the fault trees. Those of the seeds are the defaults.

Belongs here: names, bounds, defaults. Never: a rule.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from policies.base import PolicySettings


class DiagnosisSettings(PolicySettings):
    """What is wrong, by name: `[policies.diagnosis]`. A diagnosis begins at one level and stays until its clear
    level.
    """

    for_s: float = Field(default=10.0, ge=0.0, description="what is wrong has to last so long")
    clear_for_s: float = Field(default=30.0, ge=0.0, description="and so long has to be over")
    max_age_s: float = Field(default=3.0, ge=0.0, description="a source older than this gives nothing")

    no_progress_s: float = Field(default=60.0, gt=0.0, description="nothing comes or ends although requests are there")
    engine_down_s: float = Field(default=3.0, ge=0.0, description="nothing answers")
    blind_s: float = Field(default=3.0, ge=0.0, description="the engine answers, its metrics do not")

    memory_ratio: float = Field(default=0.95, gt=0.0, le=1.0, description="effective memory: root of the OOM tree")
    memory_clear_ratio: float = Field(default=0.92, gt=0.0, le=1.0)
    a100_budget_tokens: int = Field(default=8192, ge=1, description="max_num_batched_tokens an A100-80G bears")
    hot_ratio_max: float = Field(default=0.4, gt=0.0, le=0.9, description="hot_cache_ratio over this is too high")
    fragmentation_ratio: float = Field(default=0.35, gt=0.0, le=1.0, description="of the allocator")
    fragmentation_clear_ratio: float = Field(default=0.30, gt=0.0, le=1.0)

    swing_ratio: float = Field(default=0.30, gt=0.0, description="QPS swing: root of the throughput-swing tree")
    swing_clear_ratio: float = Field(default=0.25, gt=0.0)
    growth_factor_min: float = Field(default=1.3, gt=1.0)
    growth_factor_max: float = Field(default=1.8, gt=1.0)
    hot_requests_ratio: float = Field(default=0.40, gt=0.0, le=1.0, description="hot share of requests over this")

    latency_jump_ratio: float = Field(
        default=0.5, gt=0.0, description="P99 rose by this part within a minute; one bucket's width is no jump"
    )
    latency_jump_clear_ratio: float = Field(default=0.1, ge=0.0)
    regroupings_per_s: float = Field(default=0.1, gt=0.0, description="windows reordered a second that explain a jump")

    throughput_drop_ratio: float = Field(default=0.3, gt=0.0, lt=1.0, description="tokens/s this part under the usual")
    throughput_clear_ratio: float = Field(default=0.15, ge=0.0, lt=1.0)
    usual_s: float = Field(default=300.0, gt=0.0, description="time constant of the usual throughput under load")
    usual_least_s: float = Field(default=60.0, ge=0.0, description="it is not known before")
    length_spread: float = Field(default=2.0, gt=1.0, description="long over short prompts; the seeds' best is up to 2")
    serial_batch: float = Field(default=1.5, gt=0.0, description="requests per step under this while others wait")

    kv_full_ratio: float = Field(default=0.95, gt=0.0, le=1.0)
    kv_clear_ratio: float = Field(default=0.90, gt=0.0, le=1.0)
    preemptions_per_s: float = Field(default=0.2, gt=0.0, description="with a full KV cache: thrashing")

    @model_validator(mode="after")
    def _in_order(self) -> DiagnosisSettings:
        for name in ("memory", "fragmentation", "swing", "latency_jump"):
            if getattr(self, f"{name}_clear_ratio") >= getattr(self, f"{name}_ratio"):
                raise ValueError(f"{name}_clear_ratio must be under {name}_ratio = {getattr(self, f'{name}_ratio'):g}")
        if self.throughput_clear_ratio >= self.throughput_drop_ratio:
            raise ValueError(
                f"throughput_clear_ratio must be under throughput_drop_ratio = {self.throughput_drop_ratio:g}"
            )
        if self.kv_clear_ratio >= self.kv_full_ratio:
            raise ValueError(f"kv_clear_ratio must be under kv_full_ratio = {self.kv_full_ratio:g}")
        return self
