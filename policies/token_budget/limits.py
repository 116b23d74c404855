"""What holds the budget under its target for a while: an OOM, or a broken objective without a model to say more.

Both go down at once and come back step by step. Belongs here: those two limits. Never: the target.
"""

from __future__ import annotations

import math
from dataclasses import replace

from policies.token_budget.scene import Scene, Target
from policies.token_budget.state import TokenBudgetState


def after_oom(scene: Scene) -> TokenBudgetState:
    """The seeds' step: 1024 tokens less at a time, not under 4096 or what was in force before, and back."""
    s, state, now_s = scene.settings, scene.state, scene.view.now_s
    since_s = None if state.oom_moved_s is None else now_s - state.oom_moved_s
    if scene.oom is not None:
        if since_s is not None and since_s < s.oom_cooldown_s and not scene.oom.restarted:
            return state
        before = scene.now if state.oom_before is None else state.oom_before
        held = state.oom_limit if scene.oom.restarted and state.oom_limit is not None else scene.now
        limit = max(lowest_after_oom(scene, before), min(held, scene.now) - s.oom_step_tokens)
        return replace(state, oom_limit=min(limit, before), oom_before=before, oom_moved_s=now_s)
    if state.oom_limit is None or state.oom_before is None or since_s is None or since_s < s.recover_after_s:
        return state
    memory = scene.view.effective_memory_ratio
    if memory is None or memory >= s.clear_memory_ratio:
        return state
    limit = state.oom_limit + s.oom_step_tokens
    if limit >= state.oom_before:
        return replace(state, oom_limit=None, oom_before=None, oom_moved_s=None)
    return replace(state, oom_limit=limit, oom_moved_s=now_s)


def lowest_after_oom(scene: Scene, before: float) -> float:
    """Where the steps end."""
    return max(min(scene.settings.oom_floor_tokens, before), scene.knob.minimum or 1)


def after_breach(scene: Scene, by_model: bool) -> TokenBudgetState:
    """Less while inter-token latency is over its bound beyond noise; the model, once there is one, knows better."""
    s, state, now_s, verdict = scene.settings, scene.state, scene.view.now_s, scene.verdict
    if by_model:
        return replace(state, slo_limit=None, slo_moved_s=None)
    since_s = None if state.slo_moved_s is None else now_s - state.slo_moved_s
    if verdict is not None and verdict.breached and scene.prompts_matter:
        if min(scene.since_change_s, s.effect_delay_s if since_s is None else since_s) < s.effect_delay_s:
            return state
        less = min(scene.now * s.shrink_factor, scene.now - s.step_tokens, _bounding(scene))
        return replace(state, slo_limit=scene.rung(less), slo_moved_s=now_s)
    if state.slo_limit is None or since_s is None or since_s < s.recover_after_s:
        return state
    if verdict is not None and not (scene.well_measured and verdict.excess <= s.slo_margin_ratio):
        return state
    limit = state.slo_limit + scene.raise_tokens
    if limit >= scene.ceiling:
        return replace(state, slo_limit=None, slo_moved_s=None)
    return replace(state, slo_limit=limit, slo_moved_s=now_s)


def _bounding(scene: Scene) -> float:
    """The budget from where less begins to cost: far over what steps hold it bounds only the longest of them."""
    used = scene.view.batch_utilization_ratio
    return math.inf if used is None else scene.settings.room_for_steps * used * scene.now


def under(scene: Scene, target: Target) -> Target:
    """The target inside both limits, as far as they are below it, and what holds it there."""
    state = scene.state
    if state.slo_limit is not None and scene.rung(state.slo_limit) < target.tokens:
        why = scene.verdict.describe() if scene.verdict is not None else "an objective was broken"
        target = Target(scene.rung(state.slo_limit), f"{why}, and there is no model to say how much is right")
    limit = held_by_oom(scene)
    if limit is not None and limit < target.tokens:
        why = (
            scene.oom.clause
            if scene.oom is not None
            else f"memory ran out at {state.oom_before or 0:.0f} tokens lately"
        )
        target = Target(limit, why)
    return target


def held_by_oom(scene: Scene) -> float | None:
    """The limit as it holds now: nothing is lowered under the floor on our own, nor raised to it after an OOM below."""
    limit = scene.state.oom_limit
    return None if limit is None else max(limit, min(scene.floor, scene.now))
