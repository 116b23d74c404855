"""The policy: calm, acting, recovering.

Belongs here: what follows what. Never: a trigger (pressure), a value (measures), a stage (recovery).
"""

from __future__ import annotations

from dataclasses import replace

from domain.decision import Proposal, Reason
from domain.view import View
from policies.emergency_purge import measures, pressure, recovery
from policies.emergency_purge.pressure import Refusal
from policies.emergency_purge.recovery import Made
from policies.emergency_purge.settings import EmergencyPurgeSettings
from policies.emergency_purge.state import Cause, EmergencyState, Phase, within_hour

REASONS = {
    Cause.MEMORY: Reason.EMERGENCY_MEMORY,
    Cause.OOM: Reason.EMERGENCY_OOM,
    Cause.RESTARTED: Reason.EMERGENCY_OOM,
    Cause.CROWDED: Reason.EMERGENCY_CROWDED,
    Cause.ASKED: Reason.EMERGENCY_ASKED,
}


def interrupted(state: EmergencyState) -> EmergencyState:
    """The state after views that the policy did not see: what it has cut is still to come back, nothing else lasts."""
    return replace(pressure.forget(state), eased_s=0.0, eased_seen_s=None)


class EmergencyPurge:
    """Real pressure only; every measure is judged by what it brought down; then back in stages.

    Besides the knobs that it moves it says at every view, as a hold of the purge, where it stands.
    """

    name = measures.NAME

    def __init__(self, settings: EmergencyPurgeSettings) -> None:
        self.settings = settings

    def initial_state(self) -> EmergencyState:
        """Before the first view."""
        return EmergencyState()

    def decide(self, state: EmergencyState, view: View) -> tuple[EmergencyState, tuple[Proposal, ...]]:
        """At most one proposal each for the purge, the budget, the queue limit and, if configured, preemption."""
        state, made = self._decide(state, view)
        return replace(state, asked=None), made

    def _decide(self, state: EmergencyState, view: View) -> Made:
        if state.phase is not Phase.CALM and view.now_s - state.began_s >= self.settings.longest_s:
            return self._give_up(state, view)
        refusal = pressure.refusal(view, self.settings)
        if refusal is not None or view.runtime is None:
            return self._refuse(state, view, refusal or Refusal(Reason.ABSTAIN_UNKNOWN, "no runtime"))
        state = self._meet(state, view.runtime.boot_id)
        state, cause = pressure.observe(state, view, view.runtime, self.settings)
        if cause is None and state.asked is not None:
            cause = Cause.ASKED
        match state.phase:
            case Phase.CALM:
                return self._calm(state, view, cause)
            case Phase.ACTING:
                return self._act(state, view)
            case Phase.RECOVERING:
                return recovery.step(state, view, self.settings) if cause is None else self._relapse(state, view, cause)

    def _give_up(self, state: EmergencyState, view: View) -> Made:
        acting = state.phase is Phase.ACTING
        what, reason = ("relieved", Reason.NOT_RELIEVED) if acting else ("undone", Reason.RECOVERY_DONE)
        how = f"not {what} by then, the knobs stay and the other policies move them from here"
        return recovery.finish(pressure.forget(state), view, reason, how)

    def _meet(self, state: EmergencyState, boot_id: str) -> EmergencyState:
        """Another boot has start-up values and an empty cache: nothing of an emergency is left to undo."""
        if state.boot_id == boot_id:
            return state
        return replace(recovery.over(pressure.forget(state)), boot_id=boot_id, memory=())

    def _refuse(self, state: EmergencyState, view: View, refusal: Refusal) -> Made:
        """Nothing is begun, judged or loosened."""
        state = replace(pressure.forget(state), eased_seen_s=None)
        if state.phase is Phase.CALM:
            return state, (measures.say(view, refusal.reason, f"No emergency can be declared: {refusal.why}."),)
        why = f"the emergency is neither judged nor undone while {refusal.why}"
        return state, (
            measures.say(view, refusal.reason, f"No purge: {why}."),
            *measures.hold(view, self.settings, refusal.reason, why),
        )

    def _calm(self, state: EmergencyState, view: View, cause: Cause | None) -> Made:
        if cause is None:
            judged, told = pressure.calm(state, view, self.settings)
            reason = Reason.HOLD_CALM if judged else Reason.ABSTAIN_UNKNOWN
            return state, (measures.say(view, reason, f"No emergency: {told}."),)
        started = within_hour(state.started, view.now_s)
        if len(started) >= self.settings.max_emergencies_per_h:
            why = f"{len(started)} emergencies within the hour: this one is a person's"
            sentence = f"No measure although {pressure.because(cause, view, self.settings, state.asked)}: {why}."
            return state, (measures.say(view, Reason.HOLD_RATE_LIMIT, sentence),)
        state = replace(state, began_s=view.now_s, started=(*started, view.now_s), relapses=0)
        return self._begin(state, view, cause)

    def _relapse(self, state: EmergencyState, view: View, cause: Cause) -> Made:
        return self._begin(replace(state, relapses=state.relapses + 1, stage=0), view, cause)

    def _begin(self, state: EmergencyState, view: View, cause: Cause) -> Made:
        """The first measure: purge, budget and queue limit at once. A cache that just came up empty is not purged."""
        state = measures.remember(replace(state, phase=Phase.ACTING, cause=cause), view, self.settings)
        state = self._measured(state, view, 1)
        why = pressure.because(cause, view, self.settings, state.asked)
        cuts = measures.cuts(view, REASONS[cause], self.settings, why)
        if cause is Cause.RESTARTED:
            return state, (measures.say(view, REASONS[cause], f"No purge of an empty cache: {why}."), *cuts)
        return self._purge(state, view, self.settings.purge_ratio, why, cuts)

    def _purge(self, state: EmergencyState, view: View, ratio: float, why: str, cuts: tuple[Proposal, ...]) -> Made:
        reason = REASONS[state.cause] if state.cause is not None else Reason.EMERGENCY_MEMORY
        refused = measures.may_purge(state, view.now_s, self.settings)
        if refused is not None:
            return state, (measures.say(view, Reason.HOLD_RATE_LIMIT, f"No purge although {why}: {refused}."), *cuts)
        purged = (*within_hour(state.purged, view.now_s), view.now_s)
        sentence = f"Purging {ratio:.0%} of the free cached blocks: {why}."
        return replace(state, purged=purged), (measures.purge(view, ratio, reason, sentence), *cuts)

    def _measured(self, state: EmergencyState, view: View, measure: int) -> EmergencyState:
        before = pressure.figures(view, self.settings)
        return replace(state, measure=measure, measured_s=view.now_s, before=before, relieved=None)

    def _act(self, state: EmergencyState, view: View) -> Made:
        """Wait for the effect of the last measure, judge it, go on to the next."""
        eased = pressure.eased(state.cause, view, self.settings)
        if eased:
            return recovery.begin(state, view, self.settings)
        state = measures.remember(state, view, self.settings)
        reason = REASONS[state.cause] if state.cause is not None else Reason.EMERGENCY_MEMORY
        figures = pressure.figures(view, self.settings)
        now = pressure.describe(state.cause, figures)
        lasts = pressure.lasts(state.cause, view, self.settings)
        why = f"emergency, measure {state.measure}: {now}"
        cuts = (
            measures.cuts(view, reason, self.settings, why)
            if lasts is not None
            else measures.hold(view, self.settings, Reason.HOLD_EMERGENCY, why)
        )
        age_s, window_s = view.now_s - state.measured_s, self.settings.effect_window_s
        if age_s < window_s:
            why = f"measure {state.measure} is {age_s:.0f} s old and judged after {window_s:.0f} s ({now})"
            return state, (measures.say(view, Reason.HOLD_EMERGENCY, f"No purge now: {why}."), *cuts)
        fell = pressure.fell(state.cause, state.before, figures, self.settings)
        was = pressure.describe(state.cause, state.before)
        if fell is None or lasts is None:
            sentence = (
                f"No purge: measure {state.measure} cannot be judged, what it should bring down is not known ({now})."
            )
            return state, (measures.say(view, Reason.HOLD_BLIND, sentence), *cuts)
        if not lasts:
            why = f"the pressure is under its level and not yet at the clear one ({now})"
            return state, (measures.say(view, Reason.HOLD_EMERGENCY, f"No purge now: {why}."), *cuts)
        if fell:
            state = replace(self._measured(state, view, state.measure), relieved=True)
            sentence = f"No purge now: measure {state.measure} brings relief: {now}, was {was}."
            return state, (measures.say(view, Reason.HOLD_EMERGENCY, sentence), *cuts)
        return self._escalate(replace(state, relieved=False), view, f"{now}, was {was}", cuts)

    def _escalate(self, state: EmergencyState, view: View, figures: str, cuts: tuple[Proposal, ...]) -> Made:
        """A second purge where the hot tier is the cause, preemption where it was configured, then a person."""
        told = f"not relieved {view.now_s - state.measured_s:.0f} s after measure {state.measure}: {figures}"
        if state.cause is Cause.CROWDED and state.measure < 2:
            refused = measures.may_purge(state, view.now_s, self.settings)
            if refused is None:
                return self._purge(self._measured(state, view, 2), view, self.settings.second_purge_ratio, told, cuts)
            if len(within_hour(state.purged, view.now_s)) < self.settings.max_purges_per_h:
                sentence = f"No second purge yet, {refused}: {told}."
                return state, (measures.say(view, Reason.NOT_RELIEVED, sentence), *cuts)
        requests = self.settings.preempt_requests
        preempted = within_hour(state.preempted, view.now_s)
        if state.measure < 3 and requests > 0 and len(preempted) < self.settings.max_purges_per_h:
            sentence = f"Preempting {requests} requests of each engine core: {told}."
            said = measures.say(view, Reason.NOT_RELIEVED, f"No purge: {told}.")
            made = measures.preempt(view, requests, Reason.NOT_RELIEVED, sentence)
            state = replace(state, preempted=(*preempted, view.now_s))
            return self._measured(state, view, 3), (said, made, *cuts)
        left = "no running request is preempted (preempt_requests is 0)" if requests == 0 else "every measure was taken"
        counted = "the purge counts as not made" if state.purged else "nothing was purged"
        sentence = f"Not purged in effect: {told}; {counted}, {left}, and a person has to act."
        return state, (measures.say(view, Reason.NOT_RELIEVED, sentence), *cuts)
