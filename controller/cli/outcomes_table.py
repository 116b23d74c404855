"""Outcomes in a terminal.

Belongs here: how they look. Never: where they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from controller.cli.terminal import console
from controller.cli.words import moment, value
from domain.outcome import Verdict

STYLES = {"better": "green", "worse": "red", "neutral": "", "unclear": "dim", "superseded": "dim"}
MOST = 10


def show(found: Mapping[str, Any]) -> None:
    """Print them to the standard output."""
    terminal = console()
    terminal.print(f"From {moment(found['since'])} to {moment(found['until'])} UTC.")
    if not found["tallies"]:
        terminal.print("Nothing was changed in that time.")
        return
    table = Table()
    for name in ("policy", "knob"):
        table.add_column(name, no_wrap=True)
    for name in (*Verdict, "not judged yet", "undone"):
        table.add_column(str(name), justify="right")
    for one in found["tallies"]:
        counts = (str(one["verdicts"].get(verdict.value, 0)) for verdict in Verdict)
        table.add_row(escape(one["policy"]), escape(one["knob"]), *counts, str(one["waiting"]), str(one["undone"]))
    terminal.print(table)
    if found["judged"]:
        terminal.print(_judged(found["judged"][:MOST]))


def _judged(decisions: list[Mapping[str, Any]]) -> Table:
    table = Table(title="The newest that were judged", title_justify="left")
    for name in ("id", "time (UTC)", "knob", "change", "verdict"):
        table.add_column(name, no_wrap=True)
    table.add_column("why", ratio=1)
    for one in decisions:
        outcome, changed = one["outcome"], f"{value(one['old'])} -> {value(one['requested'])}"
        row = (str(one["id"]), moment(one["at"]), one["knob"], changed, outcome["verdict"], outcome["sentence"])
        table.add_row(*map(escape, row), style=STYLES[outcome["verdict"]])
    return table
