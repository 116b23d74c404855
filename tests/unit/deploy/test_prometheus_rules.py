"""deploy/prometheus/rules.yml is the daemon's own table over series that it exports, and Prometheus takes it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from controller.metrics.prometheus_rules import BESIDES, INTERVAL_S, render, translated
from controller.metrics.series import CATALOGUE
from policies.alert_thresholds import RULES
from tests.alert_rules import BY_NAME
from tests.programs import need

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "deploy" / "prometheus" / "rules.yml"


@pytest.fixture
def promtool() -> Path:
    return need("promtool")


def test_the_shipped_file_is_what_the_table_makes() -> None:
    assert SHIPPED.read_text("utf-8") == render(), (
        "make it again: python -m controller.metrics.prometheus_rules > deploy/prometheus/rules.yml"
    )


def test_every_rule_of_the_table_is_there_with_its_waits_and_two_that_no_daemon_can_tell_of_itself() -> None:
    alerts = re.findall(r"- alert: (\w+)", SHIPPED.read_text("utf-8"))
    assert alerts == [*(rule.name for rule in RULES), "governor_absent", "governor_stands_still"]
    for rule in RULES:
        made = translated(rule)
        assert (made.for_s, made.keep_firing_for_s) == (rule.for_s, rule.keep_firing_for_s)
        assert made.labels == {"severity": rule.severity, **rule.labels}
        assert made.annotations.keys() == {"summary", "description", "runbook_url"}


def test_it_looks_twice_at_least_in_the_time_that_the_shortest_rule_waits() -> None:
    waits = [wait for rule in RULES for wait in (rule.for_s, rule.keep_firing_for_s) if wait]
    assert min(waits) >= 2 * INTERVAL_S


def test_every_series_that_it_names_is_one_that_the_daemon_exports() -> None:
    said = re.findall(r"vllm[:_]\w+", " ".join(line for rule in RULES for line in translated(rule).expression))
    said += re.findall(r"vllm[:_]\w+", " ".join(line for alert in BESIDES for line in alert.expression))
    assert len(set(said)) > len(RULES) / 2
    assert set(said) <= set(CATALOGUE)


def test_arithmetic_over_signals_is_not_said_in_promql() -> None:
    rule = BY_NAME["kv_cache_full"]
    odd = replace(rule, condition=replace(rule.condition, signal="waiting / max(running, 1)"))
    with pytest.raises(ValueError, match=r"cannot say 'waiting / max\(running, 1\)' in PromQL: .*by hand"):
        render([odd])


def test_the_runbooks_of_its_own_rules_are_headings_of_the_docs() -> None:
    text = (ROOT / "docs" / "alerts.md").read_text("utf-8")
    for alert in BESIDES:
        assert alert.annotations["runbook_url"] == f"docs/alerts.md#{alert.name}"
        assert f"\n### {alert.name}\n" in text


@pytest.mark.parametrize(("what", "name"), [("check", "rules.yml"), ("test", "rules.test.yml")])
def test_promtool_takes_it(promtool: Path, what: str, name: str) -> None:
    done = subprocess.run(
        [promtool, what, "rules", SHIPPED.with_name(name)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "SUCCESS" in done.stdout
