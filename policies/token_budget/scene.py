"""One view as the budget's rules see it: what is in force, between which ends, what the objective says.

Belongs here: facts worked out from the view and the state. Never: what to do about them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from domain.decision import Reason
from domain.runtime import EngineRuntime, Knob
from domain.view import View
from policies.aim import DECODES_ALONE
from policies.oom import Signature
from policies.token_budget.settings import TokenBudgetSettings
from policies.token_budget.state import TokenBudgetState
from policies.verdict import Verdict

FULL_RATIO = 0.75
"""The seeds' pass mark of batch utilisation: steps hold this share of the budget."""
ROUNDING = 1e-9
"""A quotient that falls short of a whole number by less is that number."""


class Answer(NamedTuple):
    """What is proposed for the budget."""

    wanted: float | None
    reason: Reason
    sentence: str


class Target(NamedTuple):
    """The budget that would be right now, whatever was changed lately."""

    tokens: float
    because: str
    by_model: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """All that a rule looks at. `verdict` is that of the hardest inter-token objective, `oom` the signature if any."""

    settings: TokenBudgetSettings
    state: TokenBudgetState
    view: View
    runtime: EngineRuntime
    knob: Knob
    now: float
    verdict: Verdict | None
    oom: Signature | None

    @property
    def busiest(self) -> int:
        """Requests running in the busiest engine core: the budget is each core's own."""
        return max((core.running for core in self.runtime.cores), default=0)

    @property
    def floor(self) -> float:
        """Running decodes come first in a step; a prompt must have room beside them or nobody new gets a token."""
        step = self.settings.step_tokens
        low = max(self.settings.floor_tokens, self.busiest + step, (self.knob.minimum or 1) + step)
        return min(low, self.ceiling)

    @property
    def ceiling(self) -> float:
        """The start-up value, and the card's limit where that is less."""
        most = self.knob.maximum if self.knob.maximum is not None else self.now
        return max(self.knob.minimum or 1, min(most, self.settings.ceiling_tokens))

    @property
    def raise_tokens(self) -> float:
        """The largest step up."""
        most = self.knob.maximum if self.knob.maximum is not None else self.now
        return max(self.settings.step_tokens, self.settings.raise_share * most)

    @property
    def since_change_s(self) -> float:
        """Infinite before the first change."""
        return math.inf if self.state.changed_s is None else self.view.now_s - self.state.changed_s

    @property
    def refuted(self) -> float:
        """The budget that missed the objective lately; infinite when none did."""
        until_s, refuted = self.state.refuted_until_s, self.state.refuted
        return math.inf if refuted is None or until_s is None or self.view.now_s >= until_s else refuted

    @property
    def missed_lately(self) -> bool:
        """A budget missed the objective within the shortest time that one is avoided for: nothing is tried."""
        s, until_s = self.state, self.state.refuted_until_s
        return until_s is not None and self.view.now_s < until_s - s.refuted_for_s + self.settings.refuted_s

    @property
    def storm(self) -> bool:
        """The KV cache is full and requests are thrown out of it: too many run, and no budget helps."""
        kv, preemptions = self.view.kv_cache_usage_ratio, self.view.preemptions_per_s
        return kv is not None and kv >= self.settings.kv_full_ratio and preemptions is not None and preemptions > 0

    @property
    def prompts_matter(self) -> bool:
        """Steps hold more than a token of each running request: a smaller budget would make some shorter."""
        used = self.view.batch_utilization_ratio
        return used is None or used * self.now > DECODES_ALONE * self.busiest

    @property
    def full_steps_ratio(self) -> float:
        """Share of the steps that fill the budget, at least, were all others decodes alone; 0 where that is unknown."""
        used, decodes = self.view.batch_utilization_ratio, self.busiest / self.now
        return 0.0 if used is None or decodes >= 1.0 else max(0.0, used - decodes) / (1.0 - decodes)

    @property
    def full(self) -> bool:
        """What is measured speaks of the budget, since it is used."""
        used = self.view.batch_utilization_ratio
        return used is not None and used >= FULL_RATIO

    @property
    def measured(self) -> bool:
        """The objective has samples enough to cut by."""
        return self.verdict is not None and self.verdict.measured

    @property
    def well_measured(self) -> bool:
        """The objective has samples enough to raise by."""
        return self.measured and self.verdict is not None and self.verdict.samples >= self.settings.min_samples

    def rung(self, tokens: float) -> float:
        """The highest allowed budget at or under `tokens`: a multiple of the step, or an end of the range."""
        if tokens >= self.ceiling:
            return self.ceiling
        step = self.settings.step_tokens
        return min(self.ceiling, max(self.floor, step * math.floor(tokens / step + ROUNDING)))
