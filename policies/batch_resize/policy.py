"""The policy: which algorithm answers, and the evidence that goes with it.

Belongs here: the order of things and what is carried on. Never: a rule (one file per algorithm has those).
"""

from __future__ import annotations

from dataclasses import replace

from domain.decision import Proposal, Reason
from domain.knobs import MAX_NUM_SEQS
from domain.runtime import EngineRuntime, Knob
from domain.view import View
from policies import idle, profiles, trend
from policies.batch_resize import budget_first, growth, model, rules, seed
from policies.batch_resize.model import Forecast
from policies.batch_resize.scene import Answer, Scene, ladder_of
from policies.batch_resize.settings import BatchResizeSettings
from policies.batch_resize.state import BatchResizeState, observe
from policies.verdict import judge

Evidence = dict[str, float | str | None]


class BatchResize:
    """Grow with demand and room, shrink when inference breaks an objective, else hold; each with the numbers."""

    name = "batch_resize"

    def __init__(self, settings: BatchResizeSettings) -> None:
        self.settings = settings

    def initial_state(self) -> BatchResizeState:
        """Before the first view."""
        return BatchResizeState()

    def decide(self, state: BatchResizeState, view: View) -> tuple[BatchResizeState, tuple[Proposal, ...]]:
        """One proposal for max_num_seqs."""
        runtime = view.runtime
        knob = runtime.knob(MAX_NUM_SEQS) if runtime else None
        if runtime is None or knob is None or knob.value is None:
            why = (
                "the engine core has not answered"
                if runtime is None
                else "an engine core has no admission cap to steer"
            )
            return state, (self._propose(Answer(None, Reason.ABSTAIN_UNKNOWN, f"No proposal: {why}."), {}),)
        scene = self._scene(state, view, runtime, knob, knob.value)
        if self.settings.algorithm == "seed":
            answer = seed.decide(scene)
            return scene.state, (self._propose(answer, _evidence(scene) | {"algorithm": "seed"}),)
        seen = model.forecast(scene) if self.settings.algorithm != "rules" else "the algorithm is set to rules"
        scene = replace(scene, state=budget_first.follow(scene, seen))
        scene = replace(scene, state=model.trim(scene, seen))
        state, answer = self._answer(scene, seen)
        if answer.reason in (Reason.SHRINK_INFERENCE_SLO, Reason.SHRINK_PREEMPTING):
            state = replace(state, suspect_cap=scene.cap, suspect_budget=scene.budget_tokens)
        if isinstance(seen, str) and self.settings.algorithm == "model":
            answer = answer._replace(sentence=f"{answer.sentence} By the rules: {seen}.")
        return state, (idle.rest(view, self._propose(answer, _evidence(scene) | _forecast_evidence(scene, seen))),)

    def _scene(self, state: BatchResizeState, view: View, runtime: EngineRuntime, knob: Knob, cap: float) -> Scene:
        profile = profiles.of_engine(view.gpu_names)
        state = growth.follow(observe(state, self.settings, view, cap), self.settings, view, profile)
        rungs = ladder_of(self.settings, knob, profile)
        verdicts = tuple(judge(view, slo) for slo in view.slos)
        return Scene(self.settings, state, view, runtime, knob, cap, rungs, profile, verdicts)

    def _answer(self, scene: Scene, seen: Forecast | str) -> tuple[BatchResizeState, Answer]:
        """The first that has something to say: a cut, the starting point, a cut that the model foresees, a raise."""
        tightened = budget_first.leave(scene, seen) or rules.tighten(scene) or _start(scene)
        if tightened is None and isinstance(seen, Forecast):
            tightened = model.cut(scene, seen)
        now = rules.recommend(scene) if isinstance(seen, str) else model.recommend(scene, seen)
        right = now.cap if tightened is None or tightened.wanted is None else min(now.cap, tightened.wanted)
        state = scene.state
        if tightened is not None or not scene.unmeasured:
            recommended = trend.recent(state.recommended, scene.view.now_s, right, self.settings.raise_window_s)
            state = replace(state, recommended=recommended)
        if tightened is not None:
            return state, tightened
        return state, rules.settle(replace(scene, state=state), now)

    def _propose(self, answer: Answer, evidence: Evidence) -> Proposal:
        return Proposal(self.name, MAX_NUM_SEQS, answer.wanted, answer.reason, answer.sentence, evidence)


def _start(scene: Scene) -> Answer | None:
    """The profile's starting point, while the cap is as the engine started with it and work began just now."""
    s, state, profile = scene.settings, scene.state, scene.profile
    if not s.start_from_profile or profile is None or scene.cap != scene.knob.startup or state.changed_s is not None:
        return None
    if state.met_s is None or scene.view.now_s - state.met_s > s.start_for_s:
        return None
    start = min(profile.golden.max_num_seqs if profile.golden is not None else scene.rungs[-1], scene.rungs[-1])
    wanted = scene.lower(start) if start < scene.cap else None
    if wanted is None:
        return None
    sentence = f"Starting at {wanted} instead of {scene.cap:.0f}: the batch size of the {profile.name} profile."
    return Answer(wanted, Reason.START_PROFILE, sentence)


def _evidence(scene: Scene) -> Evidence:
    view = scene.view
    evidence: Evidence = {
        "max_num_seqs": scene.cap,
        "running": scene.runtime.running,
        "waiting": scene.waiting,
        "deferred": view.deferred,
        "kv_cache_usage_ratio": view.kv_cache_usage_ratio,
        "preemptions_per_s": view.preemptions_per_s,
        "requests_per_s": view.requests_per_s,
        "gpu_utilization_ratio": view.gpu_utilization_ratio,
        "allocator_fragmentation_ratio": view.allocator_fragmentation_ratio,
        "memory_cost_ratio": growth.memory_cost_ratio(scene),
        "growth_factor": growth.factor(scene.state, scene.settings, scene.profile),
        "window_s": view.window_s,
    }
    for verdict in scene.verdicts:
        evidence[f"{verdict.slo.latency}_over_ratio"] = verdict.over_ratio
        evidence[f"{verdict.slo.latency}_samples"] = verdict.samples
        evidence[f"{verdict.slo.latency}_bound_s"] = verdict.slo.bound_s
    return evidence


def _forecast_evidence(scene: Scene, seen: Forecast | str) -> Evidence:
    if isinstance(seen, str):
        return {"algorithm": "rules", "model": seen}
    return {
        "algorithm": "model",
        "model": seen.capacity.why,
        "model_target": seen.target,
        "model_aim_s": seen.aim_s,
        "model_step_s": seen.at_cap_s,
        "model_full_step_s": seen.full_step_s,
        "model_trim": scene.state.trim,
    }
