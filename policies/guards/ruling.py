"""From proposals to one ruling for each knob.

Belongs here: the order of the guards, and whom each of them concerns. Never: a guard's own rule (checks), when a
decision is recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from domain.decision import Mode, Priority, Proposal
from domain.knobs import TRAITS, Loosens
from domain.outcome import Refuted
from domain.view import View
from policies.guards import checks, override
from policies.guards.checks import Change
from policies.guards.choice import ACTS, beside, bounded, choose, in_force
from policies.guards.override import Override
from policies.guards.settings import GuardSettings
from policies.guards.state import GuardState, Sent, note_sent, observe


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds at this tick."""

    mode: Mode
    tick_s: float
    settings: GuardSettings
    refuted: frozenset[Refuted] = frozenset()
    overrides: tuple[Override, ...] = ()


@dataclass(frozen=True, slots=True)
class Ruling:
    """What is to be done about one knob. `requested` None: nothing; `notes`: what a guard changed or withheld."""

    proposal: Proposal
    old: float | None
    requested: float | None
    withheld: bool
    notes: tuple[str, ...]


def rule(
    state: GuardState, view: View, proposals: Iterable[Proposal], rules: Rules
) -> tuple[GuardState, tuple[Ruling, ...]]:
    """The next state and one ruling for each knob that was proposed, the more urgent first.

    A ruling with `requested` is taken to be carried out; where it is not, `withdraw` says so.
    """
    state = observe(state, view, rules.settings, rules.tick_s)
    rulings, planned = [], dict[str, float]()
    proposals = tuple(proposals)
    # What a rollback or mode static holds was an operator's word too, and on more than one knob.
    held = {one.knob for one in proposals if one.priority is Priority.OPERATOR}
    overrides = [one for one in rules.overrides if one.knob not in held]
    for priority, proposal in choose(view, (*override.proposals(overrides, view), *proposals)):
        state, ruling = _one(state, view, priority, proposal, rules, planned)
        rulings.append(ruling)
        if ruling.requested is not None:
            planned[proposal.knob] = ruling.requested
    return state, tuple(rulings)


def _one(
    state: GuardState,
    view: View,
    priority: Priority,
    proposal: Proposal,
    rules: Rules,
    planned: Mapping[str, float],
) -> tuple[GuardState, Ruling]:
    old, wanted, notes = in_force(view, proposal.knob), proposal.wanted, list[str]()
    if wanted is not None and math.isnan(wanted):
        notes.append(f"withheld: {proposal.policy} wants a value that is no number")
        return state, Ruling(replace(proposal, wanted=None), old, None, False, tuple(notes))
    if wanted is None or old is None:
        return state, Ruling(proposal, old, None, False, ())
    knob = view.knob(proposal.knob)
    target = bounded(wanted, knob, proposal.knob, notes)
    if priority is not Priority.OPERATOR:
        target = _stepped(proposal.knob, old, target, rules.settings, notes)
    target = beside(proposal.knob, old, target, view.runtime, planned, notes)
    if target == old and not (knob is not None and knob.disagreeing):
        return state, Ruling(proposal, old, None, False, tuple(notes))
    change = Change(proposal.knob, old, target, priority)
    why = _withheld(state, view, change, rules)
    if why is not None:
        return state, Ruling(proposal, old, None, True, (*notes, f"withheld: {why}"))
    sent = Sent(change.knob, old, target, view.now_s, operator=priority is Priority.OPERATOR)
    state = note_sent(state, sent, loosening=change.loosening, seen=change.knob not in ACTS)
    return state, Ruling(proposal, old, target, False, tuple(notes))


def _withheld(state: GuardState, view: View, change: Change, rules: Rules) -> str | None:
    """The first guard that objects. The mode and the engine's refusals concern everybody, the rest not an operator;
    what only keeps things calm concerns no emergency.
    """
    now_s, settings = view.now_s, rules.settings
    why = checks.forbidden_by_mode(rules.mode, change.priority) or checks.backing_off(state, change, now_s)
    if why is not None or change.priority is Priority.OPERATOR or view.runtime is None:
        return why
    why = checks.warming_up(state, settings, now_s) or checks.blind(view, settings, rules.tick_s, change)
    if why is not None or change.urgent:
        return why
    return (
        checks.draining(view.runtime, change)
        or checks.refuted_before(rules.refuted, change, now_s)
        or checks.resting(state, settings, change, now_s)
        or checks.one_at_a_time(state, change, now_s)
        or checks.turning_too_often(state, settings, change, now_s)
    )


def _stepped(name: str, old: float, target: float, settings: GuardSettings, notes: list[str]) -> float:
    """A limit that counts work grows by so much at most; one that was off, or is let go, has no step."""
    if TRAITS[name].loosens is not Loosens.UP or not math.isfinite(old) or not math.isfinite(target):
        return target
    most = max(old + 1, math.floor(old * settings.max_raise_ratio))
    if target <= most:
        return target
    notes.append(f"stepped from {target:g} to {most:g}: at most {settings.max_raise_ratio:g} times as much at once")
    return most
