"""What is asked of the engine: cuts of the budget and of the queue, and the purge.

Belongs here: proposals for one knob each, and which values they go to and come back to. Never: when (policy, recovery).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from domain.decision import Priority, Proposal, Reason
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_QUEUED_REQS, MAX_NUM_SEQS, NO_LIMIT, PREEMPT, PURGE
from domain.runtime import Knob
from domain.view import View
from policies.emergency_purge import pressure
from policies.emergency_purge.settings import EmergencyPurgeSettings
from policies.emergency_purge.state import EmergencyState, within_hour

NAME = "emergency_purge"


@dataclass(frozen=True, slots=True)
class Tight:
    """One knob: what it reads, and where an emergency wants it."""

    name: str
    value: float
    target: float

    @property
    def open(self) -> bool:
        """Still over the target."""
        return self.value > self.target


def say(view: View, reason: Reason, sentence: str) -> Proposal:
    """A hold of the act itself: nothing is purged, and why. None is proposed where nothing can be said."""
    wanted = None if reason is Reason.ABSTAIN_UNKNOWN else 0.0
    return Proposal(NAME, PURGE, wanted, reason, sentence, pressure.evidence(view))


def purge(view: View, ratio: float, reason: Reason, sentence: str) -> Proposal:
    """One purge. It is proposed for one view alone: whether it was carried out is judged by its effect."""
    return Proposal(NAME, PURGE, ratio, reason, sentence, pressure.evidence(view), Priority.EMERGENCY)


def preempt(view: View, requests: int, reason: Reason, sentence: str) -> Proposal:
    """The newest so many running requests of each engine core go back to the queue."""
    return Proposal(NAME, PREEMPT, float(requests), reason, sentence, pressure.evidence(view), Priority.EMERGENCY)


def may_purge(state: EmergencyState, now_s: float, settings: EmergencyPurgeSettings) -> str | None:
    """Why no purge may follow now, as a clause; None: one may."""
    recent = within_hour(state.purged, now_s)
    if len(recent) >= settings.max_purges_per_h:
        return f"{len(recent)} purges were made within the hour"
    if recent and now_s - recent[-1] < settings.purge_interval_s:
        return f"the last purge is {now_s - recent[-1]:.0f} s old"
    return None


def budget(view: View, settings: EmergencyPurgeSettings) -> Tight | None:
    """The seeds' max_tokens 4096, or the budget in force if that is less; not under the engine's own floor."""
    return _tight(view.knob(MAX_NUM_BATCHED_TOKENS), settings.budget_tokens)


def queue(view: View, settings: EmergencyPurgeSettings) -> Tight | None:
    """The seeds' max_queue_size 100."""
    return _tight(view.knob(MAX_NUM_QUEUED_REQS), settings.queue_limit)


def remember(state: EmergencyState, view: View, settings: EmergencyPurgeSettings) -> EmergencyState:
    """What a cut that begins now goes back to. What an earlier cut of this emergency remembered stays."""
    tokens, waiting = budget(view, settings), queue(view, settings)
    if tokens is not None and tokens.open and state.budget_before is None:
        state = replace(state, budget_before=tokens.value)
    if waiting is not None and waiting.open and not state.queue_cut:
        before = None if math.isinf(waiting.value) else waiting.value
        state = replace(state, queue_cut=True, queue_before=before)
    return state


def cuts(view: View, reason: Reason, settings: EmergencyPurgeSettings, why: str) -> tuple[Proposal, ...]:
    """Budget and queue to where an emergency wants them, what is there already is held; so is the cap."""
    made = []
    for knob in (budget(view, settings), queue(view, settings)):
        if knob is None:
            continue
        if knob.open:
            sentence = f"Cutting {knob.name} {_figure(knob.value)} -> {_figure(knob.target)}: {why}."
            evidence = pressure.evidence(view)
            made.append(Proposal(NAME, knob.name, knob.target, reason, sentence, evidence, Priority.EMERGENCY))
        else:
            made.append(_held(knob, view, Reason.HOLD_EMERGENCY, why))
    return *made, *hold_cap(view, Reason.HOLD_EMERGENCY, why)


def hold(view: View, settings: EmergencyPurgeSettings, reason: Reason, why: str) -> tuple[Proposal, ...]:
    """Budget, queue and cap stay where they are."""
    held = (*hold_budget(view, settings, reason, why), *hold_queue(view, settings, reason, why))
    return *held, *hold_cap(view, reason, why)


def hold_budget(view: View, settings: EmergencyPurgeSettings, reason: Reason, why: str) -> tuple[Proposal, ...]:
    """The budget stays."""
    knob = budget(view, settings)
    return () if knob is None else (_held(knob, view, reason, why),)


def hold_queue(view: View, settings: EmergencyPurgeSettings, reason: Reason, why: str) -> tuple[Proposal, ...]:
    """The queue limit stays."""
    knob = queue(view, settings)
    return () if knob is None else (_held(knob, view, reason, why),)


def hold_cap(view: View, reason: Reason, why: str) -> tuple[Proposal, ...]:
    """More requests at once are the last thing that an emergency needs. Cuts of the cap are batch_resize's."""
    knob = view.knob(MAX_NUM_SEQS)
    if knob is None or knob.value is None:
        return ()
    return (_held(Tight(knob.name, knob.value, knob.value), view, reason, why),)


def restore(view: View, name: str, wanted: float, reason: Reason, sentence: str) -> Proposal:
    """A step back. It loosens like any other: guards, an operator and cuts of other policies go first."""
    return Proposal(NAME, name, wanted, reason, sentence, pressure.evidence(view))


def queue_before(state: EmergencyState) -> float:
    """Where the queue limit goes back to."""
    return NO_LIMIT if state.queue_before is None else state.queue_before


def _held(knob: Tight, view: View, reason: Reason, why: str) -> Proposal:
    """It goes before a raise and leaves cuts to others."""
    sentence = f"Holding {knob.name} at {_figure(knob.value)}: {why}."
    return Proposal(NAME, knob.name, knob.value, reason, sentence, pressure.evidence(view), Priority.SHRINK)


def _tight(knob: Knob | None, limit: float) -> Tight | None:
    if knob is None or knob.value is None:
        return None
    floor = knob.minimum if knob.minimum is not None else 0.0
    return Tight(knob.name, knob.value, min(knob.value, max(float(limit), floor)))


def _figure(value: float) -> str:
    return "no limit" if math.isinf(value) else f"{value:.0f}"
