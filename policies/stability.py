"""stability: the seeds' tree for a request rate that swings.

Its two causes are a growth factor outside its range and a mix that is mostly hot. The first is batch_resize's own
number, corrected there. Belongs here: the second. Never: another number for the ratio than cache_ratio's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import Field

from domain.decision import Proposal, Reason
from domain.knobs import HOT_CACHE_RATIO
from domain.view import View
from policies.base import PolicySettings
from policies.cache_ratio import CacheRatioSettings, RatioWatch, evidence, notice, objection, raised


class StabilitySettings(PolicySettings):
    """The hot ratio's answer to a request rate that swings: `[policies.stability]`. Range, step and pace of the ratio
    are those of `[policies.cache_ratio]`.
    """

    enabled: bool = True
    swing_ratio: float = Field(default=0.3, gt=0.0, description="the request rate swings by over this")
    hot_requests_ratio: float = Field(default=0.4, gt=0.0, le=1.0, description="the mix is hot over this share")


@dataclass(frozen=True, slots=True)
class StabilityState:
    """Plain values."""

    watch: RatioWatch = field(default_factory=RatioWatch)


class Stability:
    """While the request rate swings and most requests are hot: the step that cache_ratio would take later.

    The same step, of one range and one pace, so that it happens once whoever proposes it first.
    """

    name = "stability"

    def __init__(self, settings: StabilitySettings, cache: CacheRatioSettings | None = None) -> None:
        self.settings = settings
        self.cache = cache if cache is not None else CacheRatioSettings()

    def initial_state(self) -> StabilityState:
        """Before the first view."""
        return StabilityState()

    def decide(self, state: StabilityState, view: View) -> tuple[StabilityState, tuple[Proposal, ...]]:
        """One proposal for hot_cache_ratio."""
        knob = view.knob(HOT_CACHE_RATIO)
        if knob is None or knob.value is None:
            return state, (self._abstain(view, "the engine has no hot tier to steer, or has not answered"),)
        state = StabilityState(notice(state.watch, view, knob.value))
        return state, (self._answer(state, view, knob.value),)

    def _answer(self, state: StabilityState, view: View, ratio: float) -> Proposal:
        s, swing, hot = self.settings, view.requests_per_s_swing_ratio, view.hot_requests_ratio
        if swing is None:
            return self._abstain(view, "how much the request rate swings is not known")
        load = f"the request rate swings by {swing:.0%}"
        if swing <= s.swing_ratio:
            return self._hold(view, ratio, Reason.HOLD_STEADY, f"{load} (not over {s.swing_ratio:.0%})")
        if ratio <= 0:
            return self._hold(view, ratio, Reason.HOLD_STEADY, f"{load}, but the tiers are off")
        if hot is None:
            return self._abstain(view, f"{load}, but the share of hot requests is not known")
        mix = f"{load} and {hot:.0%} of the requests are hot"
        if hot <= s.hot_requests_ratio:
            return self._hold(view, ratio, Reason.HOLD_STEADY, f"{mix}, which is not the cause")
        against = objection(self.cache, state.watch, view, ratio)
        if against is not None:
            return self._hold(view, ratio, against[0], f"{mix}, but {against[1]}")
        wanted = raised(self.cache, ratio)
        return self._propose(view, wanted, Reason.HOT_SHARE_HIGH, f"Hot ratio {ratio:g} -> {wanted:g}: {mix}.")

    def _abstain(self, view: View, why: str) -> Proposal:
        return self._propose(view, None, Reason.ABSTAIN_UNKNOWN, f"No proposal: {why}.")

    def _hold(self, view: View, ratio: float, reason: Reason, why: str) -> Proposal:
        return self._propose(view, ratio, reason, f"Holding hot ratio {ratio:g}: {why}.")

    def _propose(self, view: View, wanted: float | None, reason: Reason, sentence: str) -> Proposal:
        given = {**evidence(view), "requests_per_s_swing_ratio": view.requests_per_s_swing_ratio}
        return Proposal(self.name, HOT_CACHE_RATIO, wanted, reason, sentence, given)
