"""The way back, in four stages that a person can follow.

Stage 1 holds everything, stage 2 gives the budget back step by step, stage 3 lets the queue limit go, stage 4 is the
end. Belongs here: those stages. Never: a step on figures that are unknown or stale.
"""

from __future__ import annotations

from dataclasses import replace

from domain.decision import Proposal, Reason
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_QUEUED_REQS
from domain.view import View
from policies.emergency_purge import measures, pressure
from policies.emergency_purge.settings import EmergencyPurgeSettings
from policies.emergency_purge.state import EmergencyState, Phase

Made = tuple[EmergencyState, tuple[Proposal, ...]]
MOST_IN_VAIN = 3
"""As many steps of the budget are asked for and not made: then another policy or a guard has a reason."""


def begin(state: EmergencyState, view: View, settings: EmergencyPurgeSettings) -> Made:
    """The pressure is gone: stage 1."""
    state = replace(state, phase=Phase.RECOVERING, stage=1, eased_s=0.0, eased_seen_s=None, relieved=True)
    state = replace(state, budget_from=None, budget_top=None, budget_vain=0)
    return step(state, view, settings)


def step(state: EmergencyState, view: View, settings: EmergencyPurgeSettings) -> Made:
    """One view further. For views that `pressure.refusal` lets pass and that begin no new pressure."""
    state = _count(state, view.now_s, pressure.eased(state.cause, view, settings))
    match state.stage:
        case 1:
            return _hold(state, view, settings)
        case 2:
            return _budget(state, view, settings)
        case _:
            return _queue(state, view, settings)


def _count(state: EmergencyState, now_s: float, eased: bool | None) -> EmergencyState:
    """Time without pressure in this stage. Unknown stops the clock, pressure between the two levels sets it back."""
    if eased is None:
        return replace(state, eased_seen_s=None)
    if not eased:
        return replace(state, eased_s=0.0, eased_seen_s=None)
    gained_s = 0.0 if state.eased_seen_s is None else max(0.0, now_s - state.eased_seen_s)
    return replace(state, eased_s=state.eased_s + gained_s, eased_seen_s=now_s)


def _next(state: EmergencyState, stage: int) -> EmergencyState:
    return replace(state, stage=stage, eased_s=0.0)


def _seen(state: EmergencyState) -> bool:
    """This very view shows that the pressure is gone."""
    return state.eased_seen_s is not None


def _hold(state: EmergencyState, view: View, settings: EmergencyPurgeSettings) -> Made:
    hold_s = min(settings.max_hold_s, settings.hold_s * 2.0 ** min(state.relapses, 10))
    if state.eased_s >= hold_s and _seen(state):
        return _budget(_next(state, 2), view, settings)
    figures = pressure.describe(state.cause, pressure.figures(view, settings))
    why = f"recovery, stage 1 of 4: without pressure for {state.eased_s:.0f} of {hold_s:.0f} s ({figures})"
    return state, (
        measures.say(view, Reason.RECOVERY_HOLD, f"No purge: {why}."),
        *measures.hold(view, settings, Reason.RECOVERY_HOLD, why),
    )


def _budget(state: EmergencyState, view: View, settings: EmergencyPurgeSettings) -> Made:
    knob, before = measures.budget(view, settings), state.budget_before
    if knob is None or before is None or knob.value >= before or _left_to_others(state, knob.value):
        return _queue(_next(state, 3), view, settings)
    state = replace(state, budget_top=knob.value)
    why = f"recovery, stage 2 of 4: the budget goes back to {before:.0f}, by {settings.budget_step_tokens}"
    queue = measures.hold_queue(view, settings, Reason.RECOVERY_BUDGET, why)
    held = (*queue, *measures.hold_cap(view, Reason.RECOVERY_BUDGET, why))
    said = measures.say(view, Reason.RECOVERY_BUDGET, f"No purge: {why}.")
    if state.eased_s < settings.budget_step_s or not _seen(state):
        return state, (said, *measures.hold_budget(view, settings, Reason.RECOVERY_BUDGET, why), *held)
    wanted = min(before, knob.value + settings.budget_step_tokens)
    sentence = f"Raising {knob.name} {knob.value:.0f} -> {wanted:.0f}: {why}, {state.eased_s:.0f} s without pressure."
    step_back = measures.restore(view, MAX_NUM_BATCHED_TOKENS, wanted, Reason.RECOVERY_BUDGET, sentence)
    vain = state.budget_vain + 1 if state.budget_from == knob.value else 0
    state = replace(state, eased_s=0.0, budget_from=knob.value, budget_vain=vain)
    return state, (said, step_back, *held)


def _left_to_others(state: EmergencyState, tokens: float) -> bool:
    """Another policy lowers the budget or will not have it raised: two must not pull at it."""
    lowered = state.budget_top is not None and tokens < state.budget_top
    return lowered or state.budget_vain >= MOST_IN_VAIN


def _queue(state: EmergencyState, view: View, settings: EmergencyPurgeSettings) -> Made:
    knob, before = measures.queue(view, settings), measures.queue_before(state)
    if knob is None or not state.queue_cut or knob.value >= before or knob.open:
        tokens, wanted = measures.budget(view, settings), state.budget_before
        short = tokens is not None and wanted is not None and tokens.value < wanted
        how = "the budget is left to the other policies" if short else "everything is as it was before"
        return finish(state, view, Reason.RECOVERY_DONE, f"recovery, stage 4 of 4: {how}")
    why = "recovery, stage 3 of 4: the queue limit goes"
    said = measures.say(view, Reason.RECOVERY_QUEUE, f"No purge: {why}.")
    if state.eased_s < settings.queue_hold_s or not _seen(state):
        return state, (said, *measures.hold_queue(view, settings, Reason.RECOVERY_QUEUE, why))
    sentence = f"Releasing {knob.name} from {knob.value:.0f}: {why}, {state.eased_s:.0f} s without pressure."
    return state, (said, measures.restore(view, MAX_NUM_QUEUED_REQS, before, Reason.RECOVERY_QUEUE, sentence))


def finish(state: EmergencyState, view: View, reason: Reason, how: str) -> Made:
    """The emergency is over; what the knobs read is the other policies' from here on."""
    lasted_s = view.now_s - state.began_s
    said = measures.say(view, reason, f"The emergency is over after {lasted_s:.0f} s: {how}.")
    return over(state), (said,)


def over(state: EmergencyState) -> EmergencyState:
    """Calm again. The hour's count of emergencies and purges stays."""
    calm = EmergencyState(boot_id=state.boot_id, memory=state.memory, oom=state.oom)
    calm = replace(calm, tight=state.tight, crowded=state.crowded)
    return replace(calm, started=state.started, purged=state.purged, preempted=state.preempted)
