"""What an operator may change of the alerts, and what the docs say of the rules."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from domain.alert import Comparison, Rule, Severity
from policies.alert_thresholds import CHECKS, RULES, AlertThresholdsSettings
from tests.alert_rules import BY_NAME, FIRING, play, steps

DOCS = Path(__file__).parents[3] / "docs"


def in_force(rules: dict[str, Any]) -> dict[str, Rule]:
    changed = AlertThresholdsSettings.model_validate({"rules": rules})
    return {rule.name: rule for rule in changed.in_force}


def test_without_settings_the_table_is_in_force() -> None:
    assert AlertThresholdsSettings().in_force == RULES
    assert AlertThresholdsSettings(enabled=False).in_force == ()


def test_a_rule_can_be_changed_switched_off_and_added() -> None:
    own = {"signal": "gpu_temperature_c", "comparison": "above", "threshold": 85, "severity": "critical"}
    rules = in_force(
        {"gpu_util": {"enabled": False}, "cache_hit_rate": {"threshold": 0.4, "for_s": 60}, "hot": own},
    )
    assert rules.keys() == (BY_NAME.keys() - {"gpu_util"}) | {"hot"}
    low = rules["cache_hit_rate"]
    assert (low.condition.threshold, low.for_s, low.severity) == (0.4, 60, Severity.INFO)
    assert rules["hot"].severity is Severity.CRITICAL
    assert steps(play(rules["hot"], [90])) == [FIRING]


@pytest.mark.parametrize("name", ["", "two\nlines", "n" * 129])
def test_a_rules_name_is_one_line_that_people_read(name: str) -> None:
    """It is the label alertname, which no alert may be without."""
    with pytest.raises(ValidationError, match="should match pattern"):
        in_force({name: {"signal": "waiting", "comparison": "above", "threshold": 1}})


def test_an_empty_label_takes_the_shipped_one_out() -> None:
    rules = in_force({"gpu_util": {"labels": {"subject": "", "team": "", "room": "7"}}})
    assert rules["gpu_util"].labels == {"room": "7"}


def test_every_rule_can_be_switched_off_and_none_but_it_goes() -> None:
    for name in BY_NAME:
        assert in_force({name: {"enabled": False}}).keys() == BY_NAME.keys() - {name}


@pytest.mark.parametrize(
    ("name", "threshold", "clear"),
    [
        ("rejected_requests", 0.002, 0.001),
        ("cache_hit_rate", 0.9, 0.9125),
        ("engine_down", 60, 0),
        ("history_dropped", 10, 10),
    ],
)
def test_the_clear_level_follows_a_threshold_that_is_changed(name: str, threshold: float, clear: float) -> None:
    assert in_force({name: {"threshold": threshold}})[name].clear == pytest.approx(clear)


def test_labels_and_annotations_are_added_to_the_shipped_ones() -> None:
    changes = {
        "labels": {"team": "serving"},
        "annotations": {"runbook_url": "https://wiki/kv"},
        "keep_firing_for_s": 90,
    }
    rule = in_force({"kv_cache_full": changes})["kv_cache_full"]
    assert rule.labels == {"subject": "memory", "team": "serving"}
    assert rule.annotations == {"runbook_url": "https://wiki/kv"}
    assert rule.keep_firing_for_s == 90


def test_a_rule_may_compare_arithmetic_over_signals_and_shows_what_went_in() -> None:
    own = {"signal": "waiting / max(running, 1)", "comparison": "above", "threshold": 2, "for_s": 0}
    rule = in_force({"queue_factor": own})["queue_factor"]
    made = play(rule, [{"waiting": 30.0, "running": 10.0}, {"waiting": None, "running": 0.0}])
    assert steps(made) == [FIRING]
    assert made[0].sentence == "Waiting / max(running, 1) is 3 (waiting 30, running 10), over 2."


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        (
            {"mine": {"signal": "gpu_utilisation", "comparison": "above", "threshold": 1}},
            "there is no signal 'gpu_utilisation'; the nearest is 'gpu_utilization_ratio'",
        ),
        ({"mine": {"for_s": 5}}, "it is not a shipped one, so it needs signal, comparison and threshold"),
        ({"gpu_util": {"clear": 0.95}}, "clear = 0.95 is above the threshold 0.9"),
        ({"gpu_util": {"treshold": 0.95}}, "treshold"),
        ({"gpu_util": {"clear_for_s": 30}}, "clear_for_s"),
        ({"mine": {"signal": "waiting / runing", "comparison": "above", "threshold": 1}}, "the nearest is 'running'"),
        ({"mine": {"signal": "waiting if 1 else 2", "comparison": "above", "threshold": 1}}, "cannot use signal"),
        ({"mine": {"signal": "engine_down", "comparison": "above", "threshold": 1}}, "the nearest is 'engine_down_s'"),
        (
            {"gpu_util": {"labels": {"severity": "high"}}},
            "'severity' cannot be set here: it is the rule's key severity",
        ),
        ({"gpu_util": {"labels": {"http.code": "1"}}}, "'http.code' is no name for it"),
        ({"gpu_util": {"annotations": {"summary": "hot"}}}, "it is the rule's key summary"),
        ({"gpu_util": {"threshold": math.nan}}, "finite"),
        (
            {"gpu_util": {"only_while": [{"signal": "runing", "comparison": "above", "threshold": 0}]}},
            "the nearest is 'running'",
        ),
    ],
)
def test_a_bad_rule_is_refused_with_its_name_and_the_remedy(rules: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        AlertThresholdsSettings.model_validate({"rules": rules})
    assert told in str(caught.value)


def test_the_docs_show_the_rules_that_are_shipped() -> None:
    rows = [line for line in (DOCS / "policies.md").read_text("utf-8").splitlines() if line.count("|") == 7]
    for rule in RULES:
        (row,) = (line for line in rows if line.startswith(f"| `{rule.name}` |"))
        _, signal, fires, for_s, clear, severity = (cell.strip() for cell in row.strip("| ").split("|"))
        assert severity == rule.severity
        assert for_s == (f"{rule.for_s:g} s" if rule.for_s else "at once")
        side = ">" if rule.condition.comparison is Comparison.ABOVE else "<"
        assert (fires, clear) == (f"{side} {rule.condition.threshold:g}", f"{rule.clear:g}")
        assert rule.rise_over_s is not None or f"`{rule.condition.signal}`" in signal


def test_the_runbook_of_every_rule_is_a_heading_of_the_docs() -> None:
    headings = re.findall(r"^#+ (\w+)$", (DOCS / "alerts.md").read_text("utf-8"), re.MULTILINE)
    for rule in RULES:
        assert rule.annotations["runbook_url"] == f"docs/alerts.md#{rule.name}"
        assert headings.count(rule.name) == 1


def test_the_docs_show_every_self_check_with_its_meaning() -> None:
    text = (DOCS / "alerts.md").read_text("utf-8")
    assert [name for name, said in CHECKS.items() if f"| `{name}` | {said} |" not in text] == []
