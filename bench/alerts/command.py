"""`python -m bench alerts`: arguments, the table, the JSON line. Never here: a measurement."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.alerts.burst import Figures, measure
from domain.errors import GovernorError

GOAL_MS = 50.0
FULL, QUICK = 10_000, 1_000


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; exit code 0 when it ran, whatever came out."""
    parser = argparse.ArgumentParser(prog="python -m bench alerts", description="A burst of alerts beside the ticks.")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} alerts instead of {FULL:,}")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line of its own")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-alerts-") as folder:
            figures = asyncio.run(measure(Path(folder) / "history.db", QUICK if options.quick else FULL))
    except GovernorError as error:
        print(f"cannot go on: {error}", file=sys.stderr)
        return 1
    _show(figures)
    if options.json:
        print(json.dumps(figures.to_json()), flush=True)
    return 0


def _show(figures: Figures) -> None:
    table = Table(title=f"{figures.alerts:,} alerts at once", title_justify="left")
    for name in ("phase", "late ms, p99", "late ms, worst", "goal", "one step ms", "took s", "memory MB"):
        table.add_column(name, justify="left" if name == "phase" else "right")
    for phase in figures.phases:
        late = (f"{phase.late_ms_p99:.1f}", f"{phase.late_ms_worst:.1f}", f"{GOAL_MS:g}", f"{phase.held_ms_worst:.1f}")
        table.add_row(phase.name, *late, f"{phase.took_s:.1f}", f"{phase.memory_mb:.0f}")
    Console().print(table)
    print(f"Incidents in the history: {figures.incidents:,}. Receivers: {figures.fares}.")
