"""One alert rule over a series of values, for tests."""

from __future__ import annotations

from typing import Any

from domain.alert import AlertState, Rule, Transition
from policies.alert_thresholds import RULES, AlertsState, evaluate
from tests.views import view

BY_NAME = {rule.name: rule for rule in RULES}
INACTIVE, PENDING, FIRING, RESOLVED = AlertState


def play(rule: Rule, values: list[Any], tick_s: float = 1.0, **others: Any) -> list[Transition]:
    """One view per value of the rule's signal; a dict is several signals."""
    state = AlertsState()
    made: list[Transition] = []
    for i, value in enumerate(values):
        changes = value if isinstance(value, dict) else {rule.condition.signal: value}
        state, transitions = evaluate(state, view(tick_s * i, **(others | changes)), (rule,))
        made += transitions
    return made


def steps(transitions: list[Transition]) -> list[AlertState]:
    """The states that were entered."""
    return [one.after for one in transitions]
