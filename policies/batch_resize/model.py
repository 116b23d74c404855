"""Algorithm `model`: the largest batch that the capacity model expects to keep the inter-token objective.

Feedforward from the model, trimmed by a slow integrator on the measured share over the bound; a measured breach cuts as
in `rules`. Belongs here: what the model adds to the rules. Never: the fitting (policies/capacity.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from domain.capacity import Capacity
from domain.decision import Reason
from domain.slo import Latency
from policies import aim, ladder
from policies.batch_resize import growth, rules
from policies.batch_resize.rules import Recommendation
from policies.batch_resize.scene import Answer, Scene
from policies.batch_resize.state import BatchResizeState
from policies.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the model says for the inter-token objective that is hardest to keep."""

    verdict: Verdict
    aim_s: float
    """The step time aimed at: under the bound, trimmed."""
    target: int
    """The highest rung that stays under it."""
    at_cap_s: float
    """Predicted step time with the cap full."""
    context: float
    capacity: Capacity
    full_step_s: float | None
    """Predicted time of a step that fills the token budget beside what runs; None: the budget is not known."""

    @property
    def budget_breaks(self) -> bool:
        """Steps with prompts in them are too long, whatever the cap: fewer requests would not shorten them."""
        return self.full_step_s is not None and self.full_step_s > self.verdict.slo.bound_s

    def describe(self) -> str:
        """The numbers, as a clause."""
        bound_ms = self.verdict.slo.bound_s * 1e3
        return (
            f"the model aims at {self.aim_s * 1e3:.3g} of {bound_ms:.3g} ms between tokens and expects "
            f"{self.at_cap_s * 1e3:.3g} ms with the cap full, {self.context:.0f} tokens of context each"
        )


def forecast(scene: Scene) -> Forecast | str:
    """The forecast, or why there is none, as a clause."""
    ground = aim.ground(aim.hardest(scene.verdicts), scene.view.capacity)
    if isinstance(ground, str):
        return ground
    verdict, capacity, context = ground
    aim_s = scene.settings.model.aim_s(verdict.slo.bound_s, scene.state.trim)
    most = capacity.most_decodes(aim_s, context)
    target = scene.rungs[-1] if most is None else scene.at_most(most)
    tokens = scene.budget_tokens
    full_s = None if tokens is None else capacity.step_s(tokens, scene.busiest * context)
    return Forecast(verdict, aim_s, target, capacity.step_s(scene.cap, scene.cap * context), context, capacity, full_s)


def trim(scene: Scene, seen: Forecast | str) -> BatchResizeState:
    """Move the aim slowly by what was measured: down while more than allowed is over, up while much less is.

    Only where the aim is what holds the cap, so that it does not wind up while something else does. A breach beyond
    noise is cut at once, so the little time that it lasts counts for as long as an effect takes.
    """
    state, now_s = scene.state, scene.view.now_s
    waited_s = aim.waited_s(state.trimmed_s, now_s)
    state = replace(state, trimmed_s=now_s)
    if isinstance(seen, str) or scene.draining or state.budget_since_s is not None:
        return state
    if seen.verdict.breached:
        waited_s = max(waited_s, scene.settings.effect_delay_s)
    elif scene.since_change_s < scene.settings.effect_delay_s:
        return state
    if rules.thin(scene, seen.verdict) is not None or scene.taken < scene.settings.binding_ratio * scene.cap:
        return state
    pull = aim.pull(
        seen.verdict.excess,
        scene.settings.slo_margin_ratio,
        may_lower=scene.cap <= seen.target,
        may_raise=scene.cap >= seen.target and seen.target < scene.rungs[-1],
    )
    return replace(state, trim=scene.settings.model.trimmed(state.trim, pull, waited_s))


def cut(scene: Scene, seen: Forecast) -> Answer | None:
    """A cut before the objective breaks; none while what is measured with the cap full says that it is kept well."""
    s, verdict = scene.settings, seen.verdict
    if seen.target >= scene.cap or seen.at_cap_s <= seen.aim_s * (1.0 + s.model.dead_band_ratio):
        return None
    if not verdict.measured:
        return None  # nothing is measured: blind or idle
    full = scene.taken >= s.binding_ratio * scene.cap and verdict.samples >= s.min_samples
    if full and verdict.excess <= s.slo_margin_ratio:
        return None
    target = max(float(seen.target), scene.cap * s.steep_shrink_factor)
    answer = rules.cut(scene, target, Reason.SHRINK_PREDICTED, seen.describe(), wait=True)
    return None if answer.reason is Reason.HOLD_AT_FLOOR else answer


def recommend(scene: Scene, seen: Forecast) -> Recommendation:
    """Towards the model's rung, at most by the growth factor a step."""
    objection = (
        rules.no_room(scene)
        or rules.thin(scene, seen.verdict)
        or rules.thin_margin(scene, leave_out=tuple(v for v in scene.verdicts if v.slo.latency is Latency.ITL))
    )
    if objection is None and seen.verdict.excess > 1.0:
        objection = Reason.HOLD_SLO_MARGIN, f"{seen.verdict.describe()}"
    if objection is None and seen.target <= scene.cap:
        objection = Reason.HOLD_MODEL_LIMIT, seen.describe()
    if objection is not None:
        return Recommendation(scene.cap, objection)
    step = ladder.up(scene.cap, scene.cap * growth.factor(scene.state, scene.settings, scene.profile), scene.rungs)
    return Recommendation(min(step, seen.target), None, f"{seen.describe()}; {seen.verdict.describe()}")
