"""The bodies that Alertmanager's webhook and API v2 carry."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from alerts import payload, sanitise
from domain.alert import Severity
from domain.incident import Incident, IncidentState, Notification, fingerprint
from tests.told import NOON, incident, notification

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

any_text = st.text(st.characters(exclude_categories=()), max_size=12)
any_pairs = st.dictionaries(any_text | st.sampled_from(["a.b", "a-b", "a_b", "http.status_code", "1st"]), any_text)
any_time = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=14)), timezone(-timedelta(hours=12))]))
incidents = st.builds(
    Incident,
    rule=any_text,
    severity=st.sampled_from(Severity),
    labels=any_pairs,
    state=st.sampled_from(IncidentState),
    starts_at=any_time,
    updated_at=any_time,
    ends_at=st.none() | any_time,
    annotations=any_pairs,
)


def parsed(at: str) -> datetime:
    assert TIME.fullmatch(at)
    return datetime.fromisoformat(at)


def wire(value: Any) -> Any:
    """Through JSON and UTF-8, as it is sent."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode().decode())


def assert_valid(alert: dict[str, Any], source: Incident) -> None:
    for pairs, given_pairs in ((alert["labels"], source.labels), (alert["annotations"], source.annotations)):
        assert all(NAME.fullmatch(name) and value for name, value in pairs.items())
        kept = [sanitise.text(value) for value in given_pairs.values() if value]
        assert sorted(pairs.values()) in (sorted(kept), sorted([*kept, sanitise.text(source.rule or "unnamed")]))
    assert alert["labels"]["alertname"]
    assert parsed(alert["startsAt"]) >= datetime(1970, 1, 1, tzinfo=UTC)


@given(st.lists(incidents, min_size=1, max_size=4), any_text, any_pairs)
def test_whatever_a_rule_says_the_webhooks_body_is_valid(told: list[Incident], key: str, group: dict[str, str]) -> None:
    body = wire(payload.webhook(Notification("n", "ops", key, group, tuple(told), NOON), None))
    assert body["version"] == "4"
    for alert, source in zip(body["alerts"], told, strict=True):
        assert_valid(alert, source)
        assert alert["fingerprint"] == fingerprint(alert["labels"])
        if alert["status"] == "firing":
            assert alert["endsAt"] == "0001-01-01T00:00:00Z"
        else:
            assert parsed(alert["startsAt"]) < parsed(alert["endsAt"])
        assert body["commonLabels"].items() <= alert["labels"].items()
        assert body["commonAnnotations"].items() <= alert["annotations"].items()


@given(st.lists(incidents, min_size=1, max_size=4), any_time)
def test_whatever_a_rule_says_the_batch_for_alertmanager_is_valid(told: list[Incident], now: datetime) -> None:
    batch = wire(payload.postable(Notification("n", "ops", "{}", {}, tuple(told), NOON), now, 240.0, None))
    for alert, source in zip(batch, told, strict=True):
        assert_valid(alert, source)
        assert parsed(alert["startsAt"]) < parsed(alert["endsAt"])


@given(incidents)
def test_one_incident_has_the_same_labels_fingerprint_and_start_when_it_fires_and_when_it_is_over(
    one: Incident,
) -> None:
    fires, over = (
        payload.webhook(notification(replace(one, state=state)), None)["alerts"][0] for state in IncidentState
    )
    assert [fires[key] for key in ("labels", "fingerprint", "startsAt")] == [
        over[key] for key in ("labels", "fingerprint", "startsAt")
    ]


@given(any_pairs)
def test_no_label_is_lost_for_another_of_nearly_the_same_name(pairs: dict[str, str]) -> None:
    told = sanitise.labels(pairs)
    assert len(told) == sum(1 for value in pairs.values() if value)
    assert sanitise.labels(told) == told


def test_names_become_what_people_expect_and_the_second_of_a_pair_is_told_apart() -> None:
    assert sanitise.labels({"http.status_code": "503", "1st": "x"}) == {"_1st": "x", "http_status_code": "503"}
    told = sanitise.labels({"a.b": "1", "a-b": "2", "a_b": "3"})
    assert told["a_b"] == "3"
    assert sorted(told.values()) == ["1", "2", "3"]


def test_a_fingerprint_of_plain_labels_is_the_incidents_own() -> None:
    one = incident()
    assert payload.webhook(notification(one), None)["alerts"][0]["fingerprint"] == one.fingerprint


def test_the_webhooks_body_is_alertmanagers() -> None:
    body = payload.webhook(
        notification(incident(), incident("engine_down", over_after_s=90), truncated=3), "http://governor:9178"
    )
    assert body == {
        "version": "4",
        "groupKey": '{}:{alertname="kv_cache_full"}',
        "truncatedAlerts": 3,
        "status": "firing",
        "receiver": "ops",
        "groupLabels": {"alertname": "kv_cache_full"},
        "commonLabels": {"instance": "gpu1:8000", "severity": "critical"},
        "commonAnnotations": {
            "summary": "KV cache is nearly full",
            "description": "0.97 is above 0.95 for 60 s",
        },
        "externalURL": "http://governor:9178",
        "alerts": [
            {
                "status": "firing",
                "labels": {"alertname": "kv_cache_full", "instance": "gpu1:8000", "severity": "critical"},
                "annotations": {
                    "summary": "KV cache is nearly full",
                    "description": "0.97 is above 0.95 for 60 s",
                },
                "startsAt": "2026-07-30T12:00:00.000Z",
                "endsAt": "0001-01-01T00:00:00Z",
                "generatorURL": "http://governor:9178",
                "fingerprint": incident().fingerprint,
            },
            {
                "status": "resolved",
                "labels": {"alertname": "engine_down", "instance": "gpu1:8000", "severity": "critical"},
                "annotations": {
                    "summary": "KV cache is nearly full",
                    "description": "0.97 is above 0.95 for 60 s",
                },
                "startsAt": "2026-07-30T12:00:00.000Z",
                "endsAt": "2026-07-30T12:01:30.000Z",
                "generatorURL": "http://governor:9178",
                "fingerprint": incident("engine_down").fingerprint,
            },
        ],
    }


def test_an_alert_that_fires_ends_in_the_future_though_the_clock_was_set_back() -> None:
    told = notification(incident())
    (alert,) = payload.postable(told, NOON + timedelta(minutes=5), 240.0, None)
    assert alert["endsAt"] == "2026-07-30T12:09:00.000Z"
    (alert,) = payload.postable(told, NOON - timedelta(days=1), 240.0, None)
    assert alert["endsAt"] == "2026-07-30T12:04:00.000Z"


@given(st.text(max_size=200), st.integers(min_value=30, max_value=120))
def test_a_text_that_is_cut_fits_and_no_character_is_halved(text: str, limit: int) -> None:
    for size in (sanitise.utf8_size, sanitise.utf16_size):
        told = sanitise.fit(text, limit, size)
        assert size(told) <= limit
        assert told == text or "…" in told


def test_a_text_too_long_loses_whole_lines_and_says_how_many() -> None:
    text = "\n".join(f"行 {number}" for number in range(100))
    told = sanitise.fit(text, 60)
    kept = told.split("\n")
    assert kept[:-1] == text.split("\n")[: len(kept) - 1]
    assert kept[-1] == f"… {101 - len(kept)} more lines"


def test_an_escape_is_not_cut_in_half() -> None:
    assert sanitise.fit("abcdefgh &amp; and so on", 15) == "abcdefgh …"
