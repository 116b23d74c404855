"""What a transition says: one sentence with the numbers it rests on.

Belongs here: words. Never: when a rule fires.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from domain.alert import AlertState, Comparison, Condition, Rule
from domain.view import View
from policies.alert_thresholds import measure
from policies.alert_thresholds.selfchecks import SOURCES


@dataclass(frozen=True, slots=True)
class Seen:
    """What a rule saw: the value it compares, and whether its `only_while` holds."""

    view: View
    told: Mapping[str, float]
    value: float
    speaks: bool | None


def sentence(rule: Rule, after: AlertState, seen: Seen) -> str:
    """The numbers behind the step to `after`."""
    condition = rule.condition
    what = _what(rule, seen.view)
    value = f"{seen.value:.4g}{_inputs(condition, seen)}"
    beyond = f"{'over' if condition.comparison is Comparison.ABOVE else 'under'} {condition.threshold:g}"
    match after:
        case AlertState.FIRING:
            lasting = f" for {rule.for_s:g} s" if rule.for_s else ""
            return f"{_capital(what)} is {value}, {beyond}{lasting}.{_why(condition, seen.view)}"
        case AlertState.PENDING:
            return f"{_capital(what)} is {value}, {beyond}; it fires after {rule.for_s:g} s."
        case AlertState.RESOLVED if seen.speaks is False:
            return f"Over: {rule.name} does not apply now ({what} is {value})."
        case AlertState.RESOLVED:
            return f"Over: {what} is {value}, back at {rule.clear:g} for {rule.keep_firing_for_s:g} s."
        case _:
            return f"{_capital(what)} is {value}, no longer {beyond}."


def _what(rule: Rule, view: View) -> str:
    text = rule.condition.signal
    if rule.rise_over_s is not None:
        return f"the rise of {text} within {rule.rise_over_s:g} s"
    if text == measure.OBJECTIVE_EXCESS and (worst := measure.worst_objective(view)) is not None:
        slo = worst[0]
        allowed = f"in units of the {slo.allowed_ratio:.2%} allowed"
        return f"the share of {slo.latency} over {slo.bound_s * 1e3:.4g} ms, {allowed},"
    return text


def _inputs(condition: Condition, seen: Seen) -> str:
    told = measure.inputs(condition.signal, seen.view, seen.told)
    return f" ({', '.join(f'{name} {value:.4g}' for name, value in told.items())})" if told else ""


def _why(condition: Condition, view: View) -> str:
    """What the sources that a self-check speaks of say themselves."""
    sources = SOURCES.get(condition.signal, ())
    said = dict.fromkeys(view.problems[one].rstrip(".") for one in sources if one in view.problems)
    return f" It says: {'; '.join(said)}." if said else ""


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
