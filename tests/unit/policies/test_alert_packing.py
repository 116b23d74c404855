"""The rules' state outlives the process, and whatever happens an incident begins once and ends once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.alert import AlertState, Comparison, Condition, Rule, Severity, Transition
from domain.view import View
from policies.alert_thresholds import AlertsState, evaluate, pack, unpack
from tests.alert_rules import BY_NAME, FIRING, INACTIVE, PENDING, RESOLVED, steps
from tests.spells import lasting

SIGNAL = "kv_cache_usage_ratio"


def restarted(state: AlertsState, now_s: float, again_s: float, downtime_s: float) -> AlertsState:
    """As another process takes it up, whose monotonic clock says `again_s`."""
    return unpack(json.loads(json.dumps(pack(state, now_s), allow_nan=False)), again_s, downtime_s)


def run(rule: Rule, values: Sequence[float | None], at_s: float = 0.0, state: AlertsState | None = None) -> Any:
    """State, transitions and the time after one value a second."""
    state, made = state or AlertsState(), list[Transition]()
    for value in values:
        seen: dict[str, Any] = {rule.condition.signal: value}
        state, transitions = evaluate(state, View(at_s, **seen), (rule,))
        made += transitions
        at_s += 1.0
    return state, made, at_s - 1.0


def test_what_fires_goes_on_after_a_restart_and_resolves_once() -> None:
    rule = BY_NAME["kv_cache_full"]
    state, made, now_s = run(rule, [0.96] * 61)
    assert steps(made) == [PENDING, FIRING]
    state = restarted(state, now_s, 5.0, 600.0)
    state, made, now_s = run(rule, [0.96] * 100, 5.0, state)
    assert made == []
    state, made, _ = run(rule, [0.5] * 31, now_s + 1.0, state)
    assert steps(made) == [RESOLVED]


def test_the_time_that_nobody_saw_is_not_counted_and_what_was_seen_before_is() -> None:
    rule = BY_NAME["kv_cache_full"]
    state, made, now_s = run(rule, [0.96] * 41)
    state = restarted(state, now_s, 1000.0, 3600.0)
    _, made, now_s = run(rule, [0.96] * 30, 1000.0, state)
    assert [(one.before, one.after, one.now_s) for one in made] == [(PENDING, FIRING, 1020.0)]


@pytest.mark.parametrize("over_a_restart", [False, True])
@pytest.mark.parametrize("changed", [{"signal": "gpu_utilization_ratio"}, {"threshold": 0.97}])
def test_what_was_seen_of_another_condition_counts_for_nothing(over_a_restart: bool, changed: dict[str, Any]) -> None:
    rule = BY_NAME["kv_cache_full"]
    state, _, now_s = run(rule, [0.99] * 59)
    if over_a_restart:
        state = restarted(state, now_s, now_s, 0.0)
    other = replace(rule, condition=replace(rule.condition, **changed))
    _, made, now_s = run(other, [0.99] * 61, now_s + 1.0, state)
    assert [(one.before, one.after, one.now_s) for one in made] == [
        (INACTIVE, PENDING, 59.0),
        (PENDING, FIRING, 119.0),
    ]


def test_a_rise_is_never_taken_over_the_lowest_of_another_signal() -> None:
    rule = BY_NAME["memory_fragmentation_growth"]
    state, _, now_s = run(rule, [0.1] * 60)
    waiting = replace(rule, condition=Condition("waiting", Comparison.ABOVE, 50.0), clear=40.0)
    assert run(waiting, [60.0] * 60, now_s, state)[1] == []
    assert steps(run(waiting, [5.0, 60.0], now_s, state)[1]) == [FIRING]


def test_what_fires_under_another_condition_goes_on_until_the_new_one_is_over() -> None:
    rule = BY_NAME["kv_cache_full"]
    state, _, now_s = run(rule, [0.96] * 61)
    other = replace(rule, condition=replace(rule.condition, threshold=0.99), clear=0.98)
    _, made, _ = run(other, [0.96] * 31, now_s, state)
    assert steps(made) == [RESOLVED]


def test_the_lowest_value_keeps_its_age_over_a_restart() -> None:
    rule = BY_NAME["memory_fragmentation_growth"]
    state, _, now_s = run(rule, [0.1] * 60)

    def after(downtime_s: float) -> list[AlertState]:
        again = restarted(state, now_s, 7.0, downtime_s)
        return steps(run(rule, [0.45], 7.0, again)[1])

    assert after(100.0) == [FIRING]
    assert after(-100.0) == [FIRING]  # the wall clock was set back
    assert after(301.0) == []


def test_rules_of_which_nothing_is_known_take_no_room() -> None:
    state, _ = evaluate(AlertsState(), View(0.0))
    assert len(state.rules) == len(BY_NAME)
    assert pack(state, 0.0) == {"rules": []}
    assert unpack({"rules": []}, 9.0, 1.0) == AlertsState()


@pytest.mark.parametrize(
    "packed",
    [
        {},
        {"rules": 3},
        {"rules": [{"name": "gpu_util"}]},
        {"rules": [{"name": "gpu_util", "state": "burning"}]},
        {"rules": [{"name": "gpu_util", "state": "firing", "lasted_s": -1}]},
        {"rules": [{"name": "gpu_util", "state": "firing", "lowest": [{"age_s": 1, "value": "nan"}]}]},
    ],
)
def test_what_was_not_packed_here_is_refused_in_a_sentence(packed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^cannot take up the alerts' state: .*the rules begin anew$"):
        unpack(packed, 0.0, 0.0)


# --- for any series, cut by restarts anywhere ---


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """One of the table's kinds with waits of its own."""
    above = draw(st.booleans())
    waits = st.sampled_from([0.0, 1.0, 5.0, 30.0])
    return Rule(
        "any",
        Condition(SIGNAL, Comparison.ABOVE if above else Comparison.BELOW, 0.6 if above else 0.4),
        0.4 if above else 0.6,
        draw(waits),
        Severity.WARNING,
        "It is so.",
        keep_firing_for_s=draw(waits),
        only_while=draw(st.sampled_from([(), (Condition("demand", Comparison.ABOVE, 0.0),)])),
        rise_over_s=draw(st.sampled_from([None, None, 30.0])),
    )


values = st.sampled_from([None, 0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 1.0])
moments = st.tuples(values, st.sampled_from([None, 0.0, 3.0, 3.0]), st.sampled_from(["tick"] * 12 + ["restart"]))


@settings(max_examples=150)
@given(rules(), lasting(moments, 40), st.sampled_from([1.0, 15.0, 100.0]), st.floats(-100.0, 1e5))
def test_an_incident_begins_once_and_ends_once_whatever_is_seen_and_however_often_it_restarts(
    rule: Rule, told: list[tuple[float | None, float | None, str]], tick_s: float, clock_s: float
) -> None:
    state, open_, now_s = AlertsState(), False, 0.0
    for value, demand, what in told:
        if what == "restart":
            again_s = now_s + clock_s
            state, now_s = restarted(state, now_s, again_s, 10.0), again_s
        now_s += tick_s
        state, made = evaluate(state, View(now_s, kv_cache_usage_ratio=value, demand=demand), (rule,))
        for one in made:
            if one.after is FIRING:
                assert not open_, "fired twice in one incident"
                open_ = True
            elif one.after is RESOLVED and one.before is FIRING:
                assert open_, "resolved what does not fire"
                open_ = False
            else:
                assert one.after in (PENDING, INACTIVE, RESOLVED)
                assert not open_, "left firing without being resolved"
        assert {one.name: one.state is FIRING for one in state.rules} == {"any": open_}
        assert all(one.held.on is (one.state is FIRING) for one in state.rules)


@settings(max_examples=60)
@given(rules(), lasting(values, 40), st.data())
def test_a_restart_never_makes_a_rule_fire_or_resolve_earlier(
    rule: Rule, told: list[float | None], data: st.DataObject
) -> None:
    rule = replace(rule, only_while=())
    at = data.draw(st.integers(0, len(told)))
    before, _, now_s = run(rule, told[:at])
    _, straight, _ = run(rule, told[at:], now_s + 1.0, before)
    _, after, _ = run(rule, told[at:], now_s + 1.0, restarted(before, now_s, now_s, 0.0))
    first = next((one.now_s for one in straight if one.after in (FIRING, RESOLVED)), float("inf"))
    assert all(one.now_s >= first for one in after if one.after in (FIRING, RESOLVED))
