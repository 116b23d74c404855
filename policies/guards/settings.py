"""Every number of the guards. docs/policies.md explains each.

Belongs here: names, bounds, defaults. Never: a rule.
"""

from __future__ import annotations

from pydantic import Field, field_validator

from domain.knobs import TRAITS
from policies.base import PolicySettings


class GuardSettings(PolicySettings):
    """`[guards]`. An effect delay is the knob's own (domain/knobs.py)."""

    warm_up_s: float = Field(
        default=5.0, ge=0.0, le=3600.0, description="no change so long after the engine was met or came back"
    )
    stale_ticks: float = Field(
        default=3.0, ge=1.0, le=60.0, description="a source that is older freezes what rests on it"
    )
    cooldown_ratio: float = Field(
        default=0.5, ge=0.0, le=20.0, description="a knob rests for this part of its effect delay after a change"
    )
    cooldown_s: dict[str, float] = Field(default_factory=dict, description="or for so long, by the knob's name")
    max_raise_ratio: float = Field(
        default=2.0, gt=1.0, le=100.0, description="the most that one step lets a limit grow by"
    )
    max_reversals: int = Field(
        default=3, ge=2, le=1000, description="as often may a knob change its direction within the window"
    )
    reversal_window_s: float = Field(default=180.0, ge=1.0, le=86400.0)
    dwell_doublings: int = Field(
        default=6, ge=0, le=16, description="the dwell, an effect delay at first, doubles at most so often"
    )
    dwell_decay_s: float = Field(
        default=180.0, ge=1.0, le=86400.0, description="and halves after each so long without a reversal"
    )
    back_off_s: float = Field(
        default=300.0, ge=1.0, le=86400.0, description="the longest pause after changes without effect"
    )

    @field_validator("cooldown_s")
    @classmethod
    def _known(cls, by_knob: dict[str, float]) -> dict[str, float]:
        for name, seconds in by_knob.items():
            if name not in TRAITS:
                raise ValueError(f"{name} is no knob: it may name {', '.join(TRAITS)}")
            if not 0.0 <= seconds <= 86400.0:
                raise ValueError(f"{name} = {seconds:g} must be from 0 to 86400 seconds")
        return by_knob

    def rest_s(self, knob: str) -> float:
        """How long a knob rests after each change."""
        return self.cooldown_s.get(knob, self.cooldown_ratio * TRAITS[knob].effect_delay_s)
