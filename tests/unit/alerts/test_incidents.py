"""Incidents: begun once, ended once, the same in both."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from alerts.incidents import follow, opened, reconcile
from domain.alert import AlertState, Comparison, Condition, Rule, Severity, Transition
from domain.incident import Incident, IncidentState
from tests.told import NOON

RULES = [
    Rule(name, Condition("s", Comparison.ABOVE, 1.0), 0.5, 0.0, severity, f"{name}.", labels={"subject": "memory"})
    for name, severity in (("a", Severity.WARNING), ("b", Severity.CRITICAL))
]
FIRING, RESOLVED = AlertState.FIRING, AlertState.RESOLVED


def transition(rule: Rule, after: AlertState, value: float = 2.0) -> Transition:
    return Transition(rule, AlertState.PENDING, after, 0.0, value, f"It is {value:g}.")


def test_an_incident_has_the_rules_labels_and_its_own_win_over_them() -> None:
    rule = replace(RULES[0], labels={"subject": "memory", "instance": "mine", "severity": "mine"})
    (incident,) = follow({}, [transition(rule, FIRING)], "gpu1:8000", NOON)
    assert incident.labels == {"subject": "memory", "alertname": "a", "severity": "warning", "instance": "gpu1:8000"}
    assert incident.annotations == {"summary": "a.", "description": "It is 2."}
    assert (incident.starts_at, incident.ends_at, incident.value) == (NOON, None, 2.0)


def test_the_end_tells_the_last_numbers_and_is_after_the_start_even_if_the_clock_was_set_back() -> None:
    open_ = opened(follow({}, [transition(RULES[0], FIRING)], "n", NOON))
    (over,) = follow(open_, [transition(RULES[0], RESOLVED, 0.1)], "n", NOON - timedelta(days=400))
    assert not open_
    assert over.annotations["description"] == "It is 0.1."
    assert over.ends_at is not None
    assert over.starts_at < over.ends_at < NOON + timedelta(seconds=1)


def test_a_rule_that_is_only_pending_is_no_incident() -> None:
    open_ = opened([])
    only = [transition(RULES[0], AlertState.PENDING), transition(RULES[0], AlertState.INACTIVE)]
    assert follow(open_, only, "n", NOON) == ()
    assert not open_


def test_incidents_whose_rule_does_not_fire_any_more_are_ended_once() -> None:
    open_ = opened([])
    begun = follow(open_, [transition(rule, FIRING) for rule in RULES], "n", NOON)
    restored = opened([*begun, replace(begun[0], state=IncidentState.RESOLVED, rule="c")])
    assert restored == open_
    left, ended = reconcile(restored, {"b"}, NOON + timedelta(hours=1))
    assert list(left) == ["b"]
    assert [(one.rule, one.state, one.fingerprint) for one in ended] == [
        ("a", IncidentState.RESOLVED, begun[0].fingerprint)
    ]
    assert reconcile(left, {"b"}, NOON) == (left, ())


@given(st.lists(st.tuples(st.sampled_from(RULES), st.sampled_from(AlertState)), max_size=40))
def test_each_incident_begins_once_and_ends_at_most_once_with_the_same_labels_and_start(
    steps: list[tuple[Rule, AlertState]],
) -> None:
    open_, told = opened([]), list[Incident]()
    for second, (rule, after) in enumerate(steps):
        changed = follow(open_, [transition(rule, after)], "n", NOON + timedelta(seconds=second))
        told.extend(changed)
    by_incident: dict[tuple[str, object], list[Incident]] = {}
    for one in told:
        by_incident.setdefault((one.fingerprint, one.starts_at), []).append(one)
    for first, *rest in by_incident.values():
        assert first.state is IncidentState.FIRING
        assert [one.state for one in rest] in ([], [IncidentState.RESOLVED])
        assert all((one.labels, one.severity) == (first.labels, first.severity) for one in rest)
    assert sorted(open_) == sorted(one.rule for one, *rest in by_incident.values() if not rest)
