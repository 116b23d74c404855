"""`[alerts]`: what is refused, in which words, and what never shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from alerts.inhibitions import SHIPPED
from alerts.matching import matches
from alerts.settings import AlertsSettings, Kind, ReceiverSettings
from domain.alert import Rule, Severity
from domain.silence import Matcher
from policies.alert_thresholds import RULES

HOOK = {"kind": "webhook", "url": "https://alerts.example/hook"}
BY_NAME = {rule.name: rule for rule in RULES}


def labels(rule: Rule) -> dict[str, str]:
    return {**rule.labels, "alertname": rule.name, "severity": rule.severity.value, "instance": "gpu1:8000"}


def inhibited_by(source: str) -> set[str]:
    """The shipped rules that nobody is told of while `source` fires."""
    cause = labels(BY_NAME[source])
    rows = [
        row
        for row in AlertsSettings().inhibit
        if matches(row.source_matchers, cause) and not matches(row.target_matchers, cause)
    ]
    return {
        rule.name
        for rule in RULES
        for row in rows
        if matches(row.target_matchers, labels(rule))
        and all(cause.get(name, "") == labels(rule).get(name, "") for name in row.equal)
    }


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ({"group_wait": 1}, "group_wait", "Extra inputs"),
        ({"receivers": {"ops": {**HOOK, "urll": "x"}}}, "receivers.ops.urll", "Extra inputs"),
        ({"receivers": {"ops": {**HOOK, "kind": "pager"}}}, "receivers.ops.kind", "'webhook', 'alertmanager'"),
        ({"receivers": {"ops": {**HOOK, "url_file": "/run/url"}}}, "receivers.ops", "either url or url_file"),
        ({"receivers": {"ops": {"kind": "slack"}}}, "receivers.ops", "either url or url_file"),
        ({"receivers": {"ops": {**HOOK, "url": "alerts.example"}}}, "receivers.ops.url", "must be an address like"),
        (
            {"receivers": {"ops": {**HOOK, "resend_s": 30}}},
            "receivers.ops",
            "must not have resend_s: it is for alertman",
        ),
        ({"receivers": {"ops": {**HOOK, "template": "t.j2"}}}, "receivers.ops", "it is for slack, dingtalk, feishu"),
        ({"receivers": {"ops": {**HOOK, "timeout_s": 0}}}, "receivers.ops.timeout_s", "greater than 0"),
        (
            {"receivers": {"ops": {**HOOK, "matchers": "severity"}}},
            "receivers.ops.matchers",
            "cannot read the matchers",
        ),
        ({"receivers": {"a b": HOOK}}, "receivers.a b.[key]", "match pattern"),
        (
            {"incoming": {"p": {"matchers": 'a=~".*"', "action": "emergency_purge"}}},
            "incoming.p.matchers",
            "an alert without labels does not meet",
        ),
        ({"incoming": {"p": {"matchers": "a=b", "action": "reboot"}}}, "incoming.p.action", "'emergency_purge'"),
        (
            {"inhibit": [{"source_matchers": "", "target_matchers": "a=b"}]},
            "inhibit.0.source_matchers",
            "there is none",
        ),
        ({"repeat_interval_s": 30}, "", "must not be under group_interval_s = 60"),
        ({"group_by": ["...", "alertname"]}, "", "'...' alone or not at all"),
        ({"max_alerts": 1}, "max_alerts", "greater than or equal to 2"),
        ({"external_url": "gpu1:9178"}, "external_url", "must be an address like"),
        ({"external_url": "http://[::1"}, "external_url", "must be an address like"),
        ({"receivers": {"ops": {**HOOK, "url": "http://h:65536/"}}}, "receivers.ops.url", "must be an address like"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_wrong_about_it(given: dict[str, Any], key: str, says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        AlertsSettings.model_validate(given)
    faults = {".".join(map(str, fault["loc"])): fault["msg"] for fault in caught.value.errors()}
    assert says in faults[key]


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "slack", "url": "htps://hooks.example/services/T0KEN"},
        {"kind": "slack", "url": "https://hooks.example/services/T0KEN", "url_file": "/run/url"},
        {"kind": "slack", "url": "https://hooks.example/services/T0KEN", "resend_s": 60},
        {"kind": "slack", "url": "https://hooks.example/services/T0KEN", "max_pending": 0},
        {"kind": "slack", "url": ["https://hooks.example/services/T0KEN"]},
    ],
)
def test_an_address_shows_in_no_error_and_in_no_text(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        AlertsSettings.model_validate({"receivers": {"ops": given}})
    assert "T0KEN" not in str(caught.value)
    assert "T0KEN" not in repr(caught.value.errors(include_context=True))
    fine = ReceiverSettings.model_validate({"kind": "slack", "url": "https://hooks.example/services/T0KEN"})
    assert "T0KEN" not in f"{fine!r} {fine}"


def test_a_setting_of_the_wrong_type_keeps_its_own_words_however_they_look() -> None:
    with pytest.raises(ValidationError, match=r"'\{a\}' stops|one brace|no matcher begins at '\{a=b\}x'"):
        AlertsSettings.model_validate({"receivers": {"ops": {**HOOK, "matchers": ["{{a=b}x}"]}}})


def test_matchers_are_one_text_or_several() -> None:
    one = ReceiverSettings(kind=Kind.SLACK, url_file=Path("/run/url"), matchers='severity="critical", team=ml')
    two = ReceiverSettings(kind=Kind.SLACK, url_file=Path("/run/url"), matchers=["severity=critical", "team=ml"])
    assert one.matchers == two.matchers == (Matcher("severity", "critical"), Matcher("team", "ml"))


def test_every_alert_that_the_shipped_inhibitions_name_is_a_shipped_rule() -> None:
    named = [
        name
        for row in AlertsSettings().inhibit
        for matcher in (*row.source_matchers, *row.target_matchers)
        if matcher.name == "alertname"
        for name in matcher.value.split("|")
    ]
    assert len(named) > len(SHIPPED)
    assert set(named) <= BY_NAME.keys()


def test_what_rests_on_vllms_metrics_is_not_told_beside_an_engine_that_is_down() -> None:
    down = inhibited_by("engine_down")
    assert {"latency_slo", "kv_cache_full", "no_progress", "blind", "stale_gauges"} <= down
    assert down.isdisjoint({"gpu_memory", "gpu_util", "gpu_unresponsive", "rolled_back", "ticks_failing", "disk_low"})


def test_a_critical_alert_silences_the_lesser_ones_about_the_same_thing_and_no_critical_one() -> None:
    assert {"gpu_memory", "kv_cache_full", "memory_fragmentation"} <= inhibited_by("emergency")
    assert "latency_slo" not in inhibited_by("emergency")
    for rule in RULES:
        critical = {name for name in inhibited_by(rule.name) if BY_NAME[name].severity is Severity.CRITICAL}
        assert critical <= {"no_progress"}, rule.name


def test_an_operators_inhibitions_replace_the_shipped_ones() -> None:
    assert AlertsSettings.model_validate({"inhibit": []}).inhibit == ()
