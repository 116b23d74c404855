"""A moment in a terminal.

Belongs here: words and tables. Never: figures of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from rich.markup import escape
from rich.table import Table

from controller.cli.at import Then
from controller.cli.main_signals import MAIN_SIGNALS
from controller.cli.terminal import console
from controller.cli.words import length, limit
from domain.stretch import AS_READ_S, MINUTE_S, Reading
from store.moments import InForce

STALE = timedelta(minutes=1)
"""A reading from longer before says little of the moment."""


def show(found: Sequence[Then]) -> None:
    """Print it to the standard output."""
    terminal = console()
    for index, one in enumerate(found):
        run = one.moment.run
        terminal.print(
            escape(
                f"{chr(10) if index else ''}{one.at:%Y-%m-%d %H:%M:%S} UTC on {run.node or 'this node'}: "
                f"vLLM {run.vllm_version} at {run.engine_url}, "
                f"boot {run.boot_id}, watched since {run.started_at:%Y-%m-%d %H:%M:%S}."
            )
        )
        terminal.print(_knobs(one))
        terminal.print(_measured(one))
        if one.reading is not None:
            terminal.print(_signals(one.reading))


def _knobs(one: Then) -> Table:
    table = Table()
    table.add_column("knob", overflow="fold")
    table.add_column("in force", justify="right")
    table.add_column("measured", justify="right")
    table.add_column("by decision", no_wrap=True)
    measured = {} if one.reading is None or not _speaks_of(one.at, one.reading) else one.reading.knobs
    for held in one.moment.values:
        read = limit(measured[held.knob]) if held.knob in measured else "-"
        table.add_row(escape(held.knob), limit(held.value) if held.known else "unknown", read, _told_by(held))
    return table


def _told_by(held: InForce) -> str:
    if held.decision is None:
        return "the start"
    one = held.decision.decision
    doubt = "" if held.known else f", {one.status}"
    return f"{held.decision.id}, {one.at:%m-%d %H:%M:%S}{doubt}"


def _speaks_of(at: datetime, reading: Reading) -> bool:
    """Its values of the knobs are those at its end: of an hour that holds the moment, or of one long before, others may
    have been in force.
    """
    return reading.resolution_s <= MINUTE_S and at - _end(reading) <= STALE


def _end(reading: Reading) -> datetime:
    return reading.at + timedelta(seconds=reading.resolution_s)


def _measured(one: Then) -> str:
    reading = one.reading
    if reading is None:
        return "Nothing was measured by then, or it is no longer kept."
    gap = one.at - _end(reading)
    late = f", {length(gap.total_seconds())} before: nothing is known of the moment itself" if gap > STALE else ""
    stretch = "Read at" if reading.resolution_s == AS_READ_S else f"Means of the {length(reading.resolution_s)} from"
    return f"{stretch} {reading.at:%m-%d %H:%M:%S}{late}:"


def _signals(reading: Reading) -> Table:
    table = Table(show_header=bool(reading.highs))
    table.add_column("")
    table.add_column("mean", justify="right")
    if reading.highs:
        table.add_column("highest", justify="right")
    for name in MAIN_SIGNALS:
        mean, high = reading.means.get(name), reading.high(name)
        if mean is not None:
            table.add_row(name, f"{mean:.4g}", *([f"{high:.4g}" if high is not None else "-"] if reading.highs else []))
    return table
