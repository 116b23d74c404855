"""Decisions as a table in a terminal.

Belongs here: how a decision looks there. Never: which ones, other output.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from controller.cli.terminal import console
from domain.decision import Decision, Status
from policies.trial import shown
from store.history import StoredDecision

WIDE = 120
"""From so many columns on each value has one of its own."""
STYLES = {
    Status.APPLIED: "green",
    Status.FAILED: "red",
    Status.DIVERGED: "red",
    Status.PARTIAL: "red",
    Status.INTENDED: "yellow",
    Status.RECORDED: "cyan",
    Status.NOTED: "blue",
    Status.HOLD: "dim",
}


def show(stored: Sequence[StoredDecision], *, asked: bool, full: bool) -> None:
    """Print them to the standard output. `asked`: not just any was looked for; `full`: there may be older ones."""
    terminal = console()
    if not stored:
        terminal.print("No decision fits." if asked else "No decisions yet.")
        return
    terminal.print(_table(stored, terminal))
    if full:
        terminal.print(f"There may be older ones: --before {stored[0].id}, or a higher --limit.")


def _table(stored: Sequence[StoredDecision], terminal: Console) -> Table:
    first, last = stored[0].decision.at, stored[-1].decision.at
    days = list(dict.fromkeys(f"{at:%Y-%m-%d}" for at in (first, last)))
    title = f"{len(stored)} decision{'s' if len(stored) != 1 else ''}, {' to '.join(days)}"
    table = Table(title=title, title_justify="left")
    several = len({row.decision.node for row in stored}) > 1
    wide = terminal.width >= WIDE
    table.add_column("id", no_wrap=True)
    table.add_column("time (UTC)", no_wrap=wide, min_width=8)
    if several:
        table.add_column("node", overflow="fold")
    if wide:
        _add_wide_columns(table)
    else:
        table.add_column("knob", overflow="fold", min_width=12)
        table.add_column("status", no_wrap=True)
    table.add_column("why", ratio=1)
    for row in stored:
        one = row.decision
        nodes = [escape(one.node)] if several else []
        cells = _wide(one) if wide else _narrow(one)
        table.add_row(str(row.id), f"{one.at:%m-%d %H:%M:%S}", *nodes, *cells, _why(one))
    return table


def _add_wide_columns(table: Table) -> None:
    for name in ("mode", "knob"):
        table.add_column(name, no_wrap=True)
    for name in ("old", "wanted", "requested", "observed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("reason")


def _wide(one: Decision) -> list[str]:
    values = (_value(value) for value in (one.old, one.wanted, one.requested, one.observed))
    return [one.mode, escape(one.knob), *values, _status(one), one.reason]


def _narrow(one: Decision) -> list[str]:
    return [f"{escape(one.knob)}\n{change(one)}", _status(one)]


def change(one: Decision) -> str:
    """What a decision was about to do to its knob's value."""
    if one.requested is not None:
        text = f"{_value(one.old)} -> {_value(one.requested)}"
        return text if one.observed in (None, one.requested) else f"{text}, reads {_value(one.observed)}"
    if one.wanted is None or one.wanted == one.old:
        return _value(one.old)
    return f"{_value(one.old)}, {_value(one.wanted)} wanted"


def _status(one: Decision) -> str:
    text = f"[{STYLES[one.status]}]{one.status}[/{STYLES[one.status]}]"
    return text if one.outcome is None else f"{text}\n{one.outcome.verdict}"


def _why(one: Decision) -> str:
    notes = [*one.guards, *([one.error] if one.error else [])]
    return escape(one.sentence + "".join(f" [{note}]" for note in notes))


def _value(value: float | None) -> str:
    return "-" if value is None else shown(value)
