"""Aiming under the inter-token objective's bound by the capacity model, as the cap and the token budget both do.

Belongs here: which objective counts, whether the model has anything to say, the slow trim of the aim. Never: which cap
or budget meets the aim, when it may be trimmed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pydantic import Field

from domain.capacity import Capacity
from domain.slo import Latency
from policies.base import PolicySettings
from policies.verdict import Verdict

MOST_STEP_S = 5.0
"""A longer time between two views counts as this: nobody saw what happened in it."""
DECODES_ALONE = 1.25
"""Tokens a step per running request, up to which prompts have no part in its length worth mentioning."""


class AimSettings(PolicySettings):
    """How near to the bound, and how far that moves by what is measured."""

    aim_ratio: float = Field(default=0.85, gt=0.0, le=1.0, description="of the inter-token objective's bound")
    trim_per_s: float = Field(
        default=0.005, ge=0.0, le=0.1, description="how fast the aim follows the measured share over the bound"
    )
    trim_min: float = Field(default=-0.4, ge=-0.9, le=0.0, description="the aim is lowered by this part at most")
    trim_max: float = Field(default=0.15, ge=0.0, le=0.5, description="and raised by this part at most")

    def aim_s(self, bound_s: float, trim: float) -> float:
        """The step time aimed at."""
        return self.aim_ratio * bound_s * (1.0 + trim)

    def trimmed(self, trim: float, pull: float, waited_s: float) -> float:
        """The trim after so long under this pull, which is from -1 to 1."""
        return min(self.trim_max, max(self.trim_min, trim + pull * self.trim_per_s * waited_s))


class Ground(NamedTuple):
    """What the model answers for."""

    verdict: Verdict
    capacity: Capacity
    context: float
    """Tokens that one running request has in the KV cache."""


def hardest(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The inter-token objective that is hardest to keep."""
    return min((v for v in verdicts if v.slo.latency is Latency.ITL), key=lambda v: v.slo.bound_s, default=None)


def ground(verdict: Verdict | None, capacity: Capacity | None) -> Ground | str:
    """What there is to aim by, or why there is nothing, as a clause."""
    if verdict is None:
        return "there is no inter-token objective"
    if capacity is None:
        return "the capacity model is not fitted yet"
    if not capacity.trusted:
        return f"the capacity model is {capacity.why}"
    if capacity.request_context is None:
        return "how much context a request has is not known"
    return Ground(verdict, capacity, capacity.request_context)


def waited_s(trimmed_s: float | None, now_s: float) -> float:
    """For how long the aim may move now."""
    return 0.0 if trimmed_s is None else min(MOST_STEP_S, max(0.0, now_s - trimmed_s))


def pull(excess: float, margin: float, *, may_lower: bool, may_raise: bool) -> float:
    """Down while more than allowed is over the bound, up while less than the margin is."""
    if excess > 1.0 and may_lower:
        return -min(1.0, excess - 1.0)
    return 1.0 - excess / margin if excess < margin and may_raise else 0.0
