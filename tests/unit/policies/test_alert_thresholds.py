"""The laws of the alerts: the table's numbers, and inactive -> pending -> firing -> resolved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from domain.alert import Comparison, Condition, Severity, Transition
from domain.slo import Latency, Slo
from domain.snapshot import Source
from domain.view import SIGNALS, View
from policies.alert_thresholds import CHECKS, NAMES, RULES, AlertsState, evaluate
from policies.alert_thresholds.making import Subject
from policies.alert_thresholds.measure import check
from tests.alert_rules import BY_NAME, FIRING, INACTIVE, PENDING, RESOLVED, play, steps
from tests.spells import lasting
from tests.views import samples, view

ADAPTER = TypeAdapter(AlertsState)


@pytest.mark.parametrize(
    ("name", "signal", "comparison", "threshold", "for_s"),
    [
        ("gpu_util", "gpu_utilization_ratio", "above", 0.90, 300.0),
        ("gpu_memory", "effective_memory_ratio", "above", 0.90, 300.0),
        ("memory_fragmentation", "memory_fragmentation_ratio", "above", 0.35, 60.0),
        ("memory_fragmentation_growth", "memory_fragmentation_ratio", "above", 0.30, 0.0),
        ("rejected_requests", "rejected_ratio", "above", 0.01, 30.0),
        ("rejected_requests_slo", "rejected_ratio", "above", 0.005, 30.0),
        ("cache_hit_rate", "cache_hit_ratio", "below", 0.60, 300.0),
        ("batch_utilization", "batch_utilization_ratio", "below", 0.75, 60.0),
        ("latency_slo", "objective_excess", "above", 1.0, 60.0),
        ("kv_reallocations", "reallocations_per_s", "above", 5.0, 60.0),
        ("latency_imbalance", "latency_imbalance", "above", 3.0, 60.0),
        ("qps_swing", "requests_per_s_swing_ratio", "above", 0.30, 60.0),
        ("padding_high", "padding_ratio", "above", 0.25, 60.0),
        ("padding_low", "padding_ratio", "below", 0.15, 300.0),
    ],
)
def test_the_seeds_thresholds_are_the_defaults(
    name: str, signal: str, comparison: str, threshold: float, for_s: float
) -> None:
    rule = BY_NAME[name]
    assert rule.condition == Condition(signal, Comparison(comparison), threshold)
    assert rule.for_s == for_s


def test_every_rule_names_a_signal_has_a_clear_level_on_the_other_side_and_says_what_is_wrong() -> None:
    assert len(BY_NAME) == len(RULES)
    for rule in RULES:
        for condition in (rule.condition, *rule.only_while):
            assert check(condition.signal) in NAMES
        assert rule.labels["subject"] in set(Subject)
        assert not rule.condition.holds(rule.clear), rule.name
        assert rule.cleared(rule.clear)
        assert rule.summary.endswith(".")


def test_the_two_that_are_true_of_a_healthy_engine_are_information() -> None:
    assert BY_NAME["gpu_util"].severity is BY_NAME["cache_hit_rate"].severity is Severity.INFO


def test_it_fires_after_five_minutes_and_not_before() -> None:
    made = play(BY_NAME["gpu_memory"], [0.95] * 301)
    assert [(one.after, one.now_s) for one in made] == [(PENDING, 0.0), (FIRING, 300.0)]
    assert made[-1].annotations == {
        "summary": (
            "GPU memory without the idle part of the KV cache is nearly used up. A full KV cache alone may do that."
        ),
        "description": "Effective_memory_ratio is 0.95, over 0.9 for 300 s.",
        "runbook_url": "docs/alerts.md#gpu_memory",
    }


def test_one_value_on_the_right_side_begins_the_five_minutes_anew() -> None:
    made = play(BY_NAME["gpu_memory"], [*[0.95] * 300, 0.90, *[0.95] * 300])
    assert steps(made) == [PENDING, INACTIVE, PENDING]


def test_it_resolves_at_its_clear_level_only_and_once_that_has_lasted() -> None:
    rule = BY_NAME["gpu_memory"]
    fired = [0.95] * 301
    assert steps(play(rule, [*fired, *[0.88] * 600])) == [PENDING, FIRING]
    made = play(rule, [*fired, *[0.87] * 31])
    assert [(one.after, one.now_s) for one in made[2:]] == [(RESOLVED, 331.0)]


def test_a_value_that_jumps_to_and_fro_over_the_threshold_fires_once_at_most_and_resolves_once_at_most() -> None:
    """Field case A2: KV use alternates 0.96 and 0.94 every 10 s at the threshold 0.95."""
    jumping = [0.96] * 10 + [0.94] * 10
    rule = BY_NAME["kv_cache_full"]
    assert FIRING not in steps(play(rule, jumping * 36))
    made = play(rule, [0.96] * 61 + jumping * 36 + [0.5] * 60 + jumping)
    assert steps(made).count(FIRING) == steps(made).count(RESOLVED) == 1


def test_what_is_unknown_keeps_the_state() -> None:
    rule = BY_NAME["gpu_memory"]
    assert play(rule, [None] * 600) == []
    assert steps(play(rule, [0.95, *[None] * 600])) == [PENDING]
    assert steps(play(rule, [*[0.95] * 301, *[None] * 600])) == [PENDING, FIRING]


def test_the_time_that_is_unknown_is_not_counted() -> None:
    made = play(BY_NAME["gpu_memory"], [*[0.95] * 151, *[None] * 200, *[0.95] * 151])
    assert [(one.after, one.now_s) for one in made] == [(PENDING, 0.0), (FIRING, 501.0)]


def test_a_loop_that_stood_still_does_not_fire_by_its_first_view() -> None:
    rule = BY_NAME["gpu_memory"]
    state, _ = evaluate(AlertsState(), view(0.0, effective_memory_ratio=0.95), (rule,))
    state, transitions = evaluate(state, view(10_000.0, effective_memory_ratio=0.95), (rule,))
    assert transitions == ()
    assert steps(play(rule, [0.95] * 5, tick_s=200.0)) == [PENDING, FIRING]


def test_nan_is_unknown() -> None:
    assert play(BY_NAME["no_progress"], [math.nan] * 5) == []


def test_growth_is_what_it_rose_over_its_lowest_of_five_minutes() -> None:
    rule = BY_NAME["memory_fragmentation_growth"]
    assert steps(play(rule, [0.10] * 60 + [0.41])) == [FIRING]
    assert steps(play(rule, [0.10] * 60 + [0.39])) == []
    assert steps(play(rule, [0.10] * 60 + [0.30] * 320 + [0.41])) == []


def test_low_batch_utilisation_counts_under_load_only() -> None:
    rule = BY_NAME["batch_utilization"]
    assert play(rule, [0.2] * 120, demand=0.0) == []
    assert play(rule, [0.2] * 120, demand=None) == []
    assert steps(play(rule, [0.2] * 61, demand=3.0)) == [PENDING, FIRING]


def test_an_alert_that_speaks_of_a_load_is_over_when_the_load_is() -> None:
    rule = BY_NAME["batch_utilization"]
    low = {"batch_utilization_ratio": 0.2}
    made = play(rule, [low | {"demand": 3.0}] * 61 + [low | {"demand": 0.0}] * 31)
    assert steps(made) == [PENDING, FIRING, RESOLVED]
    assert "does not apply now" in made[-1].sentence


def test_padding_under_the_range_counts_from_twelve_percent_on() -> None:
    """Less padding than that wastes nothing."""
    rule = BY_NAME["padding_low"]
    assert steps(play(rule, [0.13] * 301)) == [PENDING, FIRING]
    assert play(rule, [0.05] * 301) == []
    assert play(rule, [0.20] * 301) == []
    assert steps(play(BY_NAME["padding_high"], [0.26] * 61)) == [PENDING, FIRING]


P99 = Slo(Latency.E2E, percentile=99, bound_s=2.0)
ITL = Slo(Latency.ITL, percentile=95, bound_s=0.05)


def test_p99_over_its_bound_fires_and_names_the_objective_that_is_missed_most() -> None:
    latencies = {Latency.E2E: samples(10_000, 300, 2.0), Latency.ITL: samples(100_000, 100)}
    made = play(BY_NAME["latency_slo"], [{}] * 61, slos=(ITL, P99), latencies=latencies)
    assert steps(made) == [PENDING, FIRING]
    assert (
        "the share of e2e_request_latency over 2000 ms, in units of the 1.00% allowed, is 3"
        in made[-1].sentence.lower()
    )


@pytest.mark.parametrize(("total", "over"), [(19, 19), (100, 2)])
def test_an_objective_missed_by_few_samples_or_by_noise_does_not_fire(total: int, over: int) -> None:
    latencies = {Latency.E2E: samples(total, over, 2.0)}
    assert play(BY_NAME["latency_slo"], [{}] * 200, slos=(P99,), latencies=latencies) == []


def test_without_an_objective_there_is_nothing_to_miss() -> None:
    assert play(BY_NAME["latency_slo"], [{}] * 200, latencies={Latency.E2E: samples(1000, 900)}) == []


# --- what the daemon tells of itself ---


def tell(name: str, values: Sequence[float | None], **seen: Any) -> list[Transition]:
    """One tick per value of the self-check on which the rule rests, without a picture of the engine."""
    rule, state, made = BY_NAME[name], AlertsState(), list[Transition]()
    for i, value in enumerate(values):
        told = {} if value is None else {rule.condition.signal: value}
        state, transitions = evaluate(state, View(float(i), **seen), (rule,), told)
        made += transitions
    return made


def test_an_emergency_is_told_at_once_and_unknown_where_nobody_tells() -> None:
    assert BY_NAME["emergency"].severity is Severity.CRITICAL
    assert steps(tell("emergency", [None, 1.0, *[0.0] * 31])) == [FIRING, RESOLVED]


@pytest.mark.parametrize(
    ("name", "well", "bad", "ticks"),
    [
        ("engine_down", 15.0, 15.1, 0),
        ("blind", 0.0, 1.0, 30),
        ("stale_gauges", 60.0, 61.0, 0),
        ("lease_lost", 0.0, 1.0, 30),
        ("emergency_not_relieved", 0.0, 1.0, 0),
        ("rolled_back", 0.0, 1.0, 0),
        ("gpu_unresponsive", 30.0, 31.0, 0),
        ("ticks_failing", 4.0, 5.0, 0),
        ("deliveries_failing", 300.0, 301.0, 0),
        ("checks_worse", 0.0, 1.0, 0),
        ("history_failing", 60.0, 61.0, 0),
        ("history_set_aside", 0.0, 1.0, 0),
        ("disk_low", 0.05, 0.04, 60),
    ],
)
def test_a_self_check_fires_where_it_says_and_without_a_picture_of_the_engine(
    name: str, well: float, bad: float, ticks: int
) -> None:
    assert tell(name, [well] * 200) == []
    made = tell(name, [well, *[bad] * (ticks + 1), *[BY_NAME[name].clear] * 31])
    assert [(one.after, one.now_s) for one in made if one.after is not PENDING] == [
        (FIRING, 1.0 + ticks),
        (RESOLVED, 32.0 + ticks),
    ]


def test_every_self_check_but_what_others_told_has_a_rule() -> None:
    assert {rule.condition.signal for rule in RULES} & CHECKS.keys() == CHECKS.keys() - {"external"}


def test_writes_that_are_given_up_count_from_the_last_five_minutes_on() -> None:
    assert tell("history_dropped", [7.0] * 100) == []
    made = tell("history_dropped", [7.0] * 10 + [9.0] * 400)
    assert [(one.after, one.now_s, one.value) for one in made[:1]] == [(FIRING, 10.0, 2.0)]
    assert steps(made) == [FIRING, RESOLVED]


def test_without_a_picture_only_the_rules_on_the_daemon_itself_move() -> None:
    state, made = evaluate(AlertsState(), view(0.0, effective_memory_ratio=0.95))
    pressed = state
    for i in range(1, 1000):
        state, made = evaluate(state, View(float(i)), told={"ticks_failed": float(i)})
        assert [one.rule.name for one in made] == (["ticks_failing"] if i == 5 else [])
    assert {one.name: one.state for one in pressed.rules} | {"ticks_failing": FIRING} == {
        one.name: one.state for one in state.rules
    }


def test_a_self_check_repeats_what_its_source_says_of_the_cause() -> None:
    """Field case N4: the likely cause is in the message."""
    said = {Source.GPU: "cannot read the GPUs: NVML says 999; was the driver updated?", Source.STATS: "something else"}
    (fired,) = tell("gpu_unresponsive", [31.0], problems=said)
    assert fired.sentence == (
        "Gpu_unresponsive_s is 31, over 30. It says: cannot read the GPUs: NVML says 999; was the driver updated?."
    )


# --- for any views ---


def beyond(one: Condition) -> float:
    return one.threshold + (0.01 if one.comparison is Comparison.ABOVE else -0.01)


SEEN = [rule for rule in RULES if rule.condition.signal in SIGNALS]
PRESSED = {rule.condition.signal: beyond(rule.condition) for rule in SEEN}
RELIEVED = {rule.condition.signal: rule.clear for rule in SEEN}
names = st.sampled_from(sorted(SIGNALS))
numbers = st.one_of(st.none(), st.floats(0.0, 1.0), st.floats(0.0, 200.0), st.just(math.nan))
pictures = st.dictionaries(names, numbers, max_size=12)
views = lasting(pictures | st.sampled_from([PRESSED, RELIEVED]), 12)
ORDER = {
    INACTIVE: {PENDING, FIRING},
    PENDING: {INACTIVE, FIRING},
    FIRING: {RESOLVED},
    RESOLVED: {PENDING, FIRING},
}


@settings(max_examples=60, deadline=None)
@given(views, st.sampled_from([1.0, 60.0]))
def test_states_follow_each_other_in_order_and_every_transition_has_a_known_value(
    told: list[dict[str, float | None]], tick_s: float
) -> None:
    state = AlertsState()
    stands = dict.fromkeys(BY_NAME, INACTIVE)
    for i, changes in enumerate(told):
        before = state
        state, transitions = evaluate(before, view(tick_s * i, **changes))
        assert ADAPTER.validate_json(ADAPTER.dump_json(state)) == state
        assert evaluate(before, view(tick_s * i, **changes)) == (state, transitions) or any(
            value != value for value in changes.values()
        )
        for one in transitions:
            assert one.before is stands[one.rule.name]
            assert one.after in ORDER[one.before] | ({INACTIVE} if one.before is PENDING else set())
            assert not math.isnan(one.value)
            assert one.sentence.endswith(".")
            stands[one.rule.name] = one.after
        assert {one.name: one.state for one in state.rules} == stands


def test_rules_are_found_again_by_name_when_the_table_changes() -> None:
    rule = BY_NAME["gpu_memory"]
    state = AlertsState()
    for i in range(301):
        state, _ = evaluate(state, view(float(i), effective_memory_ratio=0.95))
    state, transitions = evaluate(state, view(301.0, effective_memory_ratio=0.95), (replace(rule, for_s=10.0),))
    assert transitions == ()
    assert [one.state for one in state.rules] == [FIRING]
