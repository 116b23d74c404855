"""The shipped alert rules as a Prometheus rule file: deploy/prometheus/rules.yml is what this module prints.

Belongs here: how a rule of the table is said in PromQL, and what Prometheus alone can notice. Never: thresholds of the
table (policies/alert_thresholds).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from controller.metrics.series import check_name, metric_name
from domain.alert import Comparison, Condition, Rule, Severity
from policies.alert_thresholds import CHECKS, NAMES, RULES

INTERVAL_S = 15.0
"""How often Prometheus evaluates the file: half of the table's shortest `for`."""
HEADER = f"""\
The alerts of vllm-governor for those who alert in Prometheus: the daemon's own table with its thresholds, made by
  python -m controller.metrics.prometheus_rules > deploy/prometheus/rules.yml
To change a number for good, change the table (policies/alert_thresholds) and make the file again; a test compares them.

Needs Prometheus 2.42 or newer (keep_firing_for) that scrapes the daemon every {INTERVAL_S:g} s. The alerts are named
like the daemon's own: let one of the two tell Alertmanager, or each arrives twice.

The clear level: a rule fires beyond its threshold and is over at a level of its own. While it fires, which Prometheus
keeps in the series ALERTS, the second half of its expression holds it down to that level.

What differs from the daemon's own alerts:
- What is not known is absent from the daemon's metrics. The daemon then keeps a rule where it stands; Prometheus takes
  the rule as over, and counts `for` anew once the value is known again.
- An operator's changes under [policies.alert_thresholds] are not in this file.
- The description does not name the objective that is missed, nor what a source says of its failure.
"""


@dataclass(frozen=True, slots=True)
class Alert:
    """One entry of the file. `expression` is its lines; a wait of 0 s is left out."""

    name: str
    expression: Sequence[str]
    for_s: float
    keep_firing_for_s: float
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def _own(name: str, expression: str, for_s: float, summary: str, description: str) -> Alert:
    labels = {"severity": Severity.CRITICAL.value, "subject": "governor"}
    said = {"summary": summary, "description": description, "runbook_url": f"docs/alerts.md#{name}"}
    return Alert(name, (expression,), for_s, 0.0, labels, said)


BESIDES = (
    _own(
        "governor_absent",
        "absent(vllm_governor_ticks_total)",
        60.0,
        "Prometheus does not see the governor.",
        "No target exports vllm_governor_ticks_total: the daemon is down or is not scraped.",
    ),
    _own(
        "governor_stands_still",
        "time() - vllm_governor_last_tick_timestamp_seconds > 60",
        0.0,
        "The governor is there, and no tick of its succeeds.",
        'Its last good tick began {{ $value | printf "%.4g" }} s ago, over 60.',
    ),
)
"""What no daemon can tell of itself: that it is not there, or that it stands still."""


def render(rules: Iterable[Rule] = RULES) -> str:
    """The whole file. Raises ValueError for a rule on arithmetic over signals; the table has none."""
    lines = [f"# {line}".rstrip() for line in HEADER.splitlines()]
    lines += ["groups:", *_group("vllm-governor", map(translated, rules))]
    lines += ["", "  # What no daemon can tell of itself: that it is not there, or that it stands still."]
    lines += _group("vllm-governor-itself", BESIDES)
    return "\n".join(lines) + "\n"


def translated(rule: Rule) -> Alert:
    """A rule of the table as Prometheus is to read it."""
    signal, threshold = rule.condition.signal, rule.condition.threshold
    what = signal if rule.rise_over_s is None else f"the rise of {signal} within {rule.rise_over_s:g} s"
    beyond = f"{'over' if rule.condition.comparison is Comparison.ABOVE else 'under'} {threshold:g}"
    lasting = f" for {rule.for_s:g} s" if rule.for_s else ""
    said = f'{what[0].upper()}{what[1:]} is {{{{ $value | printf "%.4g" }}}}, {beyond}{lasting}.'
    labels = {"severity": rule.severity.value, **rule.labels}
    annotations = {"summary": rule.summary, "description": said, **rule.annotations}
    return Alert(rule.name, _expression(rule), rule.for_s, rule.keep_firing_for_s, labels, annotations)


def _expression(rule: Rule) -> list[str]:
    value, side = _series(rule.condition), _side(rule.condition)
    if rule.rise_over_s is not None:
        value = f"({value} - min_over_time({value}[{_duration(rule.rise_over_s)}]))"
    lines = [f"{value} {side} {rule.condition.threshold:g}"]
    if rule.clear != rule.condition.threshold:
        besides = ", ".join(("alertname", "alertstate", "severity", *rule.labels))
        fires = f'ALERTS{{alertname="{rule.name}", alertstate="firing"}}'
        lines += ["or", f"({value} {side} {rule.clear:g} and ignoring ({besides}) {fires})"]
    for one in rule.only_while:
        if len(lines) > 1:
            lines = ["(", *(f"  {line}" for line in lines), ")"]
        lines.append(f"and ({_series(one)} {_side(one)} {one.threshold:g})")
    return lines


def _series(condition: Condition) -> str:
    signal = condition.signal
    if signal not in NAMES:
        raise ValueError(f"cannot say {signal!r} in PromQL: it is no single signal; write the rule by hand")
    return check_name(signal) if signal in CHECKS else metric_name(signal)


def _side(condition: Condition) -> str:
    return ">" if condition.comparison is Comparison.ABOVE else "<"


def _group(name: str, alerts: Iterable[Alert]) -> Iterator[str]:
    yield from (f"  - name: {name}", f"    interval: {_duration(INTERVAL_S)}", "    rules:")
    for alert in alerts:
        yield f"      - alert: {alert.name}"
        yield "        expr: |-"
        yield from (f"          {line}" for line in alert.expression)
        if alert.for_s:
            yield f"        for: {_duration(alert.for_s)}"
        if alert.keep_firing_for_s:
            yield f"        keep_firing_for: {_duration(alert.keep_firing_for_s)}"
        for key, told in (("labels", alert.labels), ("annotations", alert.annotations)):
            yield f"        {key}:"
            yield from (f"          {label}: {json.dumps(value)}" for label, value in told.items())


def _duration(seconds: float) -> str:
    """As Prometheus writes it, in the largest unit that fits."""
    milliseconds = round(seconds * 1000)
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


if __name__ == "__main__":
    sys.stdout.write(render())
