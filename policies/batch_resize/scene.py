"""One view as the rules see it: the cap, its rungs, who waits, which objective is broken by what.

Belongs here: facts worked out from the view and the state. Never: what to do about them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from domain.decision import Reason
from domain.knobs import MAX_NUM_BATCHED_TOKENS
from domain.runtime import EngineRuntime, Knob
from domain.snapshot import Source
from domain.view import View
from policies import ladder
from policies.aim import DECODES_ALONE
from policies.batch_resize.settings import BatchResizeSettings
from policies.batch_resize.state import BatchResizeState
from policies.profiles import Profile
from policies.verdict import Verdict


class Answer(NamedTuple):
    """What the policy proposes."""

    wanted: float | None
    reason: Reason
    sentence: str


@dataclass(frozen=True, slots=True)
class Scene:
    """All that a rule looks at."""

    settings: BatchResizeSettings
    state: BatchResizeState
    view: View
    runtime: EngineRuntime
    knob: Knob
    cap: float
    rungs: tuple[int, ...]
    profile: Profile | None
    verdicts: tuple[Verdict, ...]

    @property
    def since_change_s(self) -> float:
        """Infinite before the first change."""
        return math.inf if self.state.changed_s is None else self.view.now_s - self.state.changed_s

    @property
    def busiest(self) -> int:
        """Requests running in the busiest engine core: the cap is each core's own."""
        return max((core.running for core in self.runtime.cores), default=0)

    @property
    def waiting(self) -> float:
        """Requests that wait for room. Without vLLM's metrics all that wait in the engine."""
        return self.view.demand if self.view.demand is not None else float(self.runtime.waiting)

    @property
    def taken(self) -> float:
        """Slots taken in the busiest engine core. Deferred requests hold one without running."""
        return self.busiest + (self.view.deferred or 0.0) / max(1, len(self.runtime.cores))

    @property
    def budget_tokens(self) -> float | None:
        """The token budget in force."""
        knob = self.runtime.knob(MAX_NUM_BATCHED_TOKENS)
        return knob.value if knob is not None else None

    @property
    def prompts_matter(self) -> bool:
        """Steps are known to hold prompts beside a token of each running request: the budget sets their length."""
        used, budget = self.view.batch_utilization_ratio, self.budget_tokens
        return used is not None and budget is not None and used * budget > DECODES_ALONE * self.busiest

    @property
    def steps_full(self) -> bool:
        """Steps are known to use up the token budget: who runs more at once computes no more."""
        used = self.view.batch_utilization_ratio
        return used is not None and used >= self.settings.binding_ratio

    @property
    def draining(self) -> bool:
        """More run than the cap allows."""
        return self.busiest > self.cap

    @property
    def unmeasured(self) -> bool:
        """A knob has just moved, and the source that answers has no second reading since: that says nothing of the cap.

        A source that does not answer is another matter: it speaks against a raise.
        """
        return self.view.window_s <= 0.0 and self.view.ages_s.get(Source.METRICS) == 0.0

    @property
    def inference_breaches(self) -> list[Verdict]:
        """Objectives that break while requests run, not while they queue."""
        return [v for v in self.verdicts if v.breached and v.queue_bound is False]

    @property
    def queue_breached(self) -> bool:
        """The queue breaks an objective."""
        return any(v.breached and v.queue_bound for v in self.verdicts)

    def lower(self, target: float) -> int | None:
        """The rung for a cut to `target`; None where there is none.

        A cap at or under the requests that hold a slot without running would let nobody in: the engine would drain
        and stay empty.
        """
        rung = ladder.down(self.cap, target, self.rungs)
        deferred = self.view.deferred or 0.0
        if rung <= deferred:
            above = bisect_right(self.rungs, deferred)
            rung = self.rungs[above] if above < len(self.rungs) else math.ceil(self.cap)
        return rung if rung < self.cap else None

    def at_least(self, value: float) -> int:
        """The lowest rung at or over `value`."""
        return self.rungs[min(len(self.rungs) - 1, bisect_left(self.rungs, value))]

    def at_most(self, value: float) -> int:
        """The highest rung at or under `value`, else the lowest."""
        return self.rungs[max(0, bisect_right(self.rungs, value) - 1)]


def ceiling(settings: BatchResizeSettings, knob: Knob, profile: Profile | None) -> int:
    """The largest cap that is ever proposed: the envelope's, inside the hardware's limit."""
    limit = settings.hardware_limit
    if limit is None and profile is not None:
        limit = profile.max_num_seqs
    most = int(knob.maximum if knob.maximum is not None else knob.value or 1)
    return most if limit is None else max(int(knob.minimum or 1), min(most, limit))


def ladder_of(settings: BatchResizeSettings, knob: Knob, profile: Profile | None) -> tuple[int, ...]:
    """The rungs between the floor and the ceiling."""
    top = ceiling(settings, knob, profile)
    return ladder.rungs(max(int(knob.minimum or 1), min(settings.floor, top)), top, settings.ladder_step)
