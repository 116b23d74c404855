"""The checks in a terminal.

Belongs here: how they look. Never: how they came out.
"""

from __future__ import annotations

from collections import Counter

from rich.markup import escape
from rich.table import Table

from controller.cli.terminal import console
from controller.preflight.result import FAIL, NOT_APPLICABLE, PASS, UNKNOWN, WARN, Report

STYLES = {PASS: "green", WARN: "yellow", FAIL: "bold red", NOT_APPLICABLE: "dim", UNKNOWN: "magenta"}
WORDS = {NOT_APPLICABLE: "not applicable"}


def show(report: Report) -> None:
    """Print them to the standard output: a row each, then the commands that cure."""
    terminal = console()
    table = Table()
    table.add_column("check", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("why", ratio=1)
    for one in report.results:
        style = STYLES[one.state]
        table.add_row(one.name, f"[{style}]{WORDS.get(one.state, one.state.value)}[/{style}]", escape(one.why))
    terminal.print(table)
    cures = [one for one in report.results if one.cure is not None]
    if cures:
        terminal.print("What would cure it (nothing was run):")
    for one in cures:
        terminal.print(f"  [bold]{one.name}[/bold]: {escape(one.cure or '')}", soft_wrap=True)
    counts = Counter(one.state for one in report.results)
    terminal.print(", ".join(f"{counts[state]} {WORDS.get(state, state.value)}" for state in STYLES if counts[state]))
