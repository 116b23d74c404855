"""The state machine: inactive, pending, firing, resolved.

Belongs here: one step of all rules over one view. Never: a rule, its words, telling anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from domain.alert import AlertState, Condition, Rule, Transition
from domain.view import View
from policies import hysteresis, trend
from policies.alert_thresholds import measure
from policies.alert_thresholds.sentences import Seen, sentence
from policies.alert_thresholds.table import RULES
from policies.hysteresis import OFF, Held, Waits
from policies.ternary import both
from policies.trend import Spans


@dataclass(frozen=True, slots=True)
class RuleState:
    """One rule, by its name. Plain values. `held.on` is whether it fires."""

    name: str
    state: AlertState = AlertState.INACTIVE
    held: Held = OFF
    lowest: Spans = ()
    """Of a rule that compares a rise."""
    condition: str = ""
    """What all that was seen for; empty: nothing was seen yet, or it was kept by a version that did not say."""


@dataclass(frozen=True, slots=True)
class AlertsState:
    """All rules that were evaluated last."""

    rules: tuple[RuleState, ...] = ()


NOTHING: Mapping[str, float] = {}


def evaluate(
    state: AlertsState, view: View, rules: Iterable[Rule] = RULES, told: Mapping[str, float] = NOTHING
) -> tuple[AlertsState, tuple[Transition, ...]]:
    """One view further. An unknown signal keeps a rule's state: it neither fires nor resolves it.

    `told`: self-checks by name (selfchecks.CHECKS), which no view shows. A tick that has no picture of the engine gives
    `View(now_s)`, of which all is unknown: then only the rules on self-checks move.

    Rules are found again by name; one that is no longer among `rules` is forgotten without a word.
    """
    known = {one.name: one for one in state.rules}
    states: list[RuleState] = []
    transitions: list[Transition] = []
    for rule in rules:
        now, transition = _step(rule, known.get(rule.name, RuleState(rule.name)), view, told)
        states.append(now)
        if transition is not None:
            transitions.append(transition)
    return AlertsState(tuple(states)), tuple(transitions)


def _step(rule: Rule, before: RuleState, view: View, told: Mapping[str, float]) -> tuple[RuleState, Transition | None]:
    value = measure.value(rule.condition.signal, view, told)
    now = before = _of(rule, before)
    if rule.rise_over_s is not None:
        now = replace(now, lowest=trend.take(before.lowest, view.now_s, value, rule.rise_over_s))
        value = trend.rise(now.lowest, value)
    speaks = _speaks(rule, view, told)
    if value is None or speaks is None:
        begins = ends = None
    else:
        begins, ends = speaks and rule.condition.holds(value), not speaks or rule.cleared(value)
    held = hysteresis.step(before.held, view.now_s, begins, ends, Waits(rule.for_s, rule.keep_firing_for_s))
    after = before.state if begins is None else _state(before.state, held)
    if held != before.held or after is not before.state:
        now = replace(now, state=after, held=held)
    if value is None or after is before.state:
        return now, None
    said = sentence(rule, after, Seen(view, told, value, speaks))
    return now, Transition(rule, before.state, after, view.now_s, value, said)


def _of(rule: Rule, before: RuleState) -> RuleState:
    """What was seen of another condition says nothing of this one; but what fires does so until it is over."""
    own = f"{rule.condition.signal} {rule.condition.comparison} {rule.condition.threshold!r}"
    if before.condition == own:
        return before
    if not before.condition:
        return replace(before, condition=own)
    state = AlertState.INACTIVE if before.state is AlertState.PENDING else before.state
    return RuleState(rule.name, state, Held(on=before.held.on), condition=own)


def _state(before: AlertState, held: Held) -> AlertState:
    if held.on:
        return AlertState.FIRING
    if held.coming:
        return AlertState.PENDING
    return AlertState.RESOLVED if before in (AlertState.FIRING, AlertState.RESOLVED) else AlertState.INACTIVE


def _speaks(rule: Rule, view: View, told: Mapping[str, float]) -> bool | None:
    """Whether its conditions hold; None when that is not known."""
    return both(*(_holds(condition, view, told) for condition in rule.only_while))


def _holds(condition: Condition, view: View, told: Mapping[str, float]) -> bool | None:
    value = measure.value(condition.signal, view, told)
    return None if value is None else condition.holds(value)
