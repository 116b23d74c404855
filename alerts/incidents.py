"""From what rules do to what people are told of: one incident for each time that a rule fires.

Belongs here: opening and closing them. Never: when somebody is told of it (dispatch), rules, a clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from domain.alert import AlertState, Transition
from domain.incident import Incident, IncidentState

Opened = dict[str, Incident]
"""The incidents that are not over, by the name of their rule: a rule has at most one."""
_SHORTEST = timedelta(milliseconds=1)
"""An end is after its start, whatever the clock was set to in between: receivers refuse another."""


def opened(incidents: Iterable[Incident]) -> Opened:
    """Those of `incidents` that are not over: where to go on after a restart."""
    return {one.rule: one for one in incidents if one.state is IncidentState.FIRING}


def follow(open_: Opened, transitions: Iterable[Transition], node: str, at: datetime) -> tuple[Incident, ...]:
    """The incidents that these transitions began or ended, in order; `open_` is what is open after them.

    `at`: the wall time of the transitions. What fires already does not begin again; what is not open does not end.
    """
    changed = list[Incident]()
    for transition in transitions:
        name = transition.rule.name
        if transition.after is AlertState.FIRING and name not in open_:
            open_[name] = begun = _begun(transition, node, at)
            changed.append(begun)
        elif transition.after is AlertState.RESOLVED and name in open_:
            changed.append(_ended(open_.pop(name), at, transition.sentence, transition.value))
    return tuple(changed)


def reconcile(before: Opened, firing: Collection[str], at: datetime) -> tuple[Opened, tuple[Incident, ...]]:
    """Ends every incident whose rule is not among the names that are `firing`.

    After a reload that switched a rule off, and after a restart that lost where the rules stood, no transition would.
    """
    over = [one for name, one in before.items() if name not in firing]
    ended = tuple(_ended(one, at, f"Over: {one.rule} is no longer watched, or no longer holds.") for one in over)
    return {name: one for name, one in before.items() if name in firing}, ended


def _begun(transition: Transition, node: str, at: datetime) -> Incident:
    rule = transition.rule
    return Incident(
        rule=rule.name,
        severity=rule.severity,
        labels={**rule.labels, "alertname": rule.name, "severity": rule.severity.value, "instance": node},
        state=IncidentState.FIRING,
        starts_at=at,
        updated_at=at,
        value=transition.value,
        annotations=transition.annotations,
    )


def _ended(incident: Incident, at: datetime, sentence: str, value: float | None = None) -> Incident:
    return replace(
        incident,
        state=IncidentState.RESOLVED,
        updated_at=at,
        ends_at=max(at, incident.starts_at + _SHORTEST),
        value=value,
        annotations={**incident.annotations, "description": sentence},
    )
