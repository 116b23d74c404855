"""Every number of load_shed. Those of the seeds are the defaults; docs/policies.md explains the rest.

Belongs here: names, bounds, defaults. Never: a rule.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from policies.base import PolicySettings


class LoadShedSettings(PolicySettings):
    """A bounded queue while the time to first token is lost and nothing else is left: `[policies.load_shed]`."""

    enabled: bool = True
    queue_limit: int = Field(default=100, ge=1, description="the seeds' max_queue_size: the most that may ever wait")
    wait_ratio: float = Field(
        default=0.5,
        gt=0.0,
        le=1.0,
        description="of the objective's bound: so long may the last in the queue wait; longer is cause to bound it",
    )
    breach_for_s: float = Field(default=2.0, ge=0.0, description="there has been cause for so long")
    queue_share: float = Field(
        default=0.5, gt=0.0, le=1.0, description="by the queue: it is this part of the mean time to first token"
    )
    still_s: float = Field(
        default=30.0, ge=0.0, description="a cap or budget that binds and was not raised for so long is at its limit"
    )
    kv_room_ratio: float = Field(default=0.9, gt=0.0, le=1.0, description="as is a cap with the KV cache so full")
    binding_ratio: float = Field(default=0.9, gt=0.0, le=1.0, description="they bind when this share of them is taken")
    slo_margin_ratio: float = Field(
        default=0.5, ge=0.0, le=1.0, description="let go needs the share over the bound under this part of the allowed"
    )
    min_samples: int = Field(default=20, ge=1, description="and so many samples")
    release_ratio: float = Field(default=0.5, ge=0.0, lt=1.0, description="and at most this part of the limit waiting")
    release_for_s: float = Field(default=60.0, ge=0.0, description="for so long")
    rejected_pass_ratio: float = Field(default=0.005, ge=0.0, le=1.0, description="the seeds' mark for turned away")
    rejected_alert_ratio: float = Field(default=0.01, ge=0.0, le=1.0, description="and the one that alarms")

    @model_validator(mode="after")
    def _in_order(self) -> LoadShedSettings:
        if self.rejected_pass_ratio > self.rejected_alert_ratio:
            raise ValueError(
                f"rejected_pass_ratio must not be over rejected_alert_ratio = {self.rejected_alert_ratio:g}"
            )
        return self
