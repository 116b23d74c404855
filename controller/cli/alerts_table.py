"""`vllm-governor alerts` as tables.

Belongs here: how it looks. Never: where it comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from controller.cli.rules_check import Checked
from controller.cli.terminal import console
from domain.alert import Comparison, Rule

STYLES = {"critical": "bold red", "warning": "yellow", "info": ""}


def show(found: Mapping[str, Any]) -> None:
    """Alerts, silences, receivers, what was not delivered."""
    _alerts(found["alerts"])
    if found["external_firing"]:
        typer.echo(f"From outside: {found['external_firing']} fire.")
    if found["silences"]:
        _silences(found["silences"])
    if found["receivers"]:
        _receivers(found["receivers"])
    else:
        typer.echo("Nobody is told: no receiver is configured in [alerts.receivers].")
    if found["not_delivered"] is None:
        typer.echo("What was not delivered is not known: the history does not answer.")
    elif found["not_delivered"]:
        _not_delivered(found["not_delivered"])


def _alerts(alerts: list[Mapping[str, Any]]) -> None:
    if not alerts:
        typer.echo("No alert is pending or firing.")
        return
    table = Table(title="Alerts", title_justify="left")
    for name in ("state", "severity", "alert", "since", "what"):
        table.add_column(name, no_wrap=name != "what")
    for one in alerts:
        state = f"{one['state']}{' (muted)' if one['muted'] else ''}"
        said = one["annotations"].get("description") or one["annotations"].get("summary", "")
        severity = one["severity"]
        row = (state, severity, one["alertname"], _time(one["starts_at"]), said)
        table.add_row(*map(escape, row), style=STYLES.get(severity, ""))
    console().print(table)


def _silences(silences: list[Mapping[str, Any]]) -> None:
    table = Table(title="Silences", title_justify="left")
    for name in ("id", "matchers", "until", "by", "comment"):
        table.add_column(name)
    for one in silences:
        row = (str(one["id"]), ", ".join(one["matchers"]), _time(one["ends_at"]), one["created_by"], one["comment"])
        table.add_row(*map(escape, row))
    console().print(table)


def _receivers(receivers: list[Mapping[str, Any]]) -> None:
    table = Table(title="Receivers", title_justify="left")
    for name in ("name", "kind", "waiting", "delivered", "failed", "last success", "last error"):
        table.add_column(name)
    for one in receivers:
        counts = (str(one[name]) for name in ("pending", "delivered", "failed"))
        row = (one["name"], one["kind"], *counts, _time(one["last_success_at"]), one["last_error"] or "")
        table.add_row(*map(escape, row), style="yellow" if one["failing_s"] else "")
    console().print(table)


def _not_delivered(several: list[Mapping[str, Any]]) -> None:
    table = Table(title="Not delivered", title_justify="left")
    for name in ("when", "to", "alerts", "attempts", "why"):
        table.add_column(name, no_wrap=name in ("when", "to"))
    for one in several:
        names = ", ".join(one["alertnames"])
        row = (_time(one["created_at"]), one["receiver"], names, str(one["attempts"]), one["error"] or "")
        table.add_row(*map(escape, row))
    console().print(table)


def show_rules(checked: Checked) -> None:
    """The rules that would count."""
    table = Table(title=f"{len(checked.rules)} rules", title_justify="left")
    for name in ("alert", "severity", "fires", "over at", "for"):
        table.add_column(name)
    for rule in checked.rules:
        row = (rule.name, rule.severity.value, _fires(rule), f"{rule.clear:g}", f"{rule.for_s:g} s")
        table.add_row(*map(escape, row), style=STYLES[rule.severity.value])
    console().print(table)
    told = ", ".join(f"{name} ({kind})" for name, kind in checked.receivers.items())
    typer.echo(f"Receivers: {told}." if told else "Nobody would be told: no receiver is configured.")


def _fires(rule: Rule) -> str:
    side = ">" if rule.condition.comparison is Comparison.ABOVE else "<"
    what = rule.condition.signal
    if rule.rise_over_s is not None:
        what = f"rise of {what} within {rule.rise_over_s:g} s"
    return f"{what} {side} {rule.condition.threshold:g}"


def _time(text: str | None) -> str:
    return "" if text is None else f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S}"
