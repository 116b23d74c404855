"""Signals in a terminal.

Belongs here: how they look. Never: where they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from controller.cli.terminal import console
from controller.cli.words import length, moment, number


def show(found: Mapping[str, Any], *, latencies: bool) -> None:
    """Print them to the standard output."""
    terminal = console()
    old = "" if found["fresh"] else ", which is old: the loop stands still"
    terminal.print(f"At {moment(found['at'])} UTC{old}.")
    table = Table()
    table.add_column("signal", no_wrap=True)
    table.add_column("now", justify="right")
    table.add_column("meaning", ratio=1)
    for one in found["signals"]:
        table.add_row(one["name"], number(one["value"]), escape(one["meaning"]))
    terminal.print(table)
    if not latencies:
        return
    terminal.print(_latencies(found))
    for source, why in found["problems"].items():
        terminal.print(f"[yellow]{escape(source)}[/yellow]: {escape(why)}")


def _latencies(found: Mapping[str, Any]) -> Table:
    table = Table(title=f"Latencies over {length(found['window_s'])}", title_justify="left")
    table.add_column("latency", no_wrap=True)
    for name in ("samples", "mean", "P50", "P95", "P99"):
        table.add_column(name, justify="right")
    for one in found["latencies"]:
        values = (milliseconds(one[name]) for name in ("mean_s", "p50_s", "p95_s", "p99_s"))
        table.add_row(one["name"], f"{one['samples']:g}", *values)
    return table


def milliseconds(seconds: float | None) -> str:
    """A latency, in milliseconds below a second."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
