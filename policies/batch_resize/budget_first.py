"""A breach of steps that prompts make long is the token budget's to end: the cap waits while the budget can still move.

Belongs here: whose breach it is, and for how long it is left to the budget. Never: the cuts of the cap.
"""

from __future__ import annotations

from dataclasses import replace

from domain.decision import Reason
from domain.slo import Latency
from policies import aim
from policies.batch_resize.model import Forecast
from policies.batch_resize.scene import Answer, Scene
from policies.batch_resize.state import BatchResizeState


def follow(scene: Scene, seen: Forecast | str) -> BatchResizeState:
    """Notice since when the budget has been at fault, and whether it stood still through a wait for it.

    A budget at its floor, pinned by an operator or steered by nobody looks like this; once known, no time is lost on it
    again until it moves.
    """
    state, now_s, wait = scene.state, scene.view.now_s, scene.settings.model
    at_fault = _at_fault(scene, seen)
    if at_fault is None:
        return state
    if not at_fault or state.budget_stuck:
        return replace(state, budget_since_s=None)
    since_s = state.budget_since_s if state.budget_since_s is not None else now_s
    still_s = now_s - max(since_s, state.budget_moved_s if state.budget_moved_s is not None else since_s)
    if still_s >= wait.budget_still_s:
        return replace(state, budget_since_s=None, budget_stuck=True)
    return replace(state, budget_since_s=since_s)


def leave(scene: Scene, seen: Forecast | str) -> Answer | None:
    """Hold the cap for the budget's sake; None: the breach is not the budget's, or no longer left to it."""
    since_s = scene.state.budget_since_s
    others = [v for v in scene.inference_breaches if v.slo.latency is not Latency.ITL]
    verdict = aim.hardest(scene.verdicts)
    if since_s is None or verdict is None or not verdict.breached or others or scene.draining:
        return None
    if isinstance(seen, Forecast) and seen.target < scene.cap:
        return None
    wait = scene.settings.model
    waited_s = scene.view.now_s - since_s
    if waited_s >= (wait.budget_first_s if isinstance(seen, Forecast) else wait.budget_still_s):
        return None
    if isinstance(seen, Forecast):
        steps = f"steps as full as the token budget allows take {(seen.full_step_s or 0.0) * 1e3:.3g} ms"
    else:
        tokens = (scene.view.batch_utilization_ratio or 0.0) * (scene.budget_tokens or 0.0)
        steps = f"a step holds {tokens:.0f} tokens of {scene.busiest} requests, so prompts make it long"
    why = (
        f"{verdict.describe()}, and {steps}: for {waited_s:.0f} s it has been the budget that is to be cut, not the cap"
    )
    return Answer(scene.cap, Reason.HOLD_BUDGET_FIRST, f"Holding {scene.cap:.0f}: {why}.")


def _at_fault(scene: Scene, seen: Forecast | str) -> bool | None:
    """The inter-token objective breaks, and by steps with prompts in them, as far as that is known.

    None: too little is measured to say, as after each move of a knob, so what was found before still holds.
    """
    verdict = aim.hardest(scene.verdicts)
    if verdict is None or not verdict.breached:
        kept = verdict is None or (verdict.measured and verdict.excess <= 1.0)
        return False if kept else None
    return scene.prompts_matter or (isinstance(seen, Forecast) and seen.budget_breaks)
