"""A replay in a terminal.

Belongs here: how its document looks there. Never: comparing, other output.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rich.markup import escape
from rich.table import Table

from controller.cli.terminal import console
from controller.cli.words import moment, value

SPANS = 10
"""Spans of one knob that are shown; the JSON has all."""
MISSES = 10
Doc = Mapping[str, Any]


def show(found: Doc, *, tries: bool) -> None:
    """Print it to the standard output. `tries`: other settings than the recorded ones were tried."""
    terminal = console()
    terminal.print(_headline(found))
    if missed := found["not_reproduced"]:
        more = f" and {len(missed) - MISSES} more" if len(missed) > MISSES else ""
        listed = ", ".join(map(str, missed[:MISSES]))
        terminal.print(f"  not so: decision {listed}{more}; `vllm-governor explain` shows each")
    if not tries:
        return
    terminal.print(_counts(found))
    for knob, report in found["knobs"].items():
        if report["timeline"]:
            terminal.print(_timeline(knob, report))
            terminal.print(*(f"  {line}" for line in effect_lines(report["effect"])), sep="\n")
    terminal.print("Each tick shows the engine as it was: what another value would have led to is not played.")


def _headline(found: Doc) -> str:
    before = found["warm_up_ticks"]
    warm = f" ({before} ticks before were run without being compared)" if before else ""
    return (
        f"{found['ticks']} ticks from {moment(found['begin'])} to {moment(found['end'])} UTC{warm}, recorded by "
        f"{', '.join(found['versions'])}.\n"
        f"{found['reproduced']} of {found['recorded_decisions']} recorded decisions came out as they were written."
    )


def _counts(found: Doc) -> Table:
    table = Table(title="By knob", title_justify="left")
    table.add_column("knob", no_wrap=True)
    for name in ("ticks", "differ", "changes recorded", "changes replayed"):
        table.add_column(name, justify="right")
    for knob, one in found["knobs"].items():
        changes = one["changes"]
        figures = (one["ticks"], one["differing_ticks"], changes["recorded"], changes["replayed"])
        table.add_row(knob, *map(str, figures))
    return table


def _timeline(knob: str, report: Doc) -> Table:
    spans = report["timeline"]
    more = len(spans) > SPANS
    title = f"{knob}: the first {SPANS} of {len(spans)} differences" if more else f"{knob}: differences"
    table = Table(title=title, title_justify="left")
    table.add_column("from (UTC)", no_wrap=True)
    for name in ("ticks", "in force"):
        table.add_column(name, justify="right")
    for name in ("recorded", "replayed"):
        table.add_column(name, ratio=1)
    for span in spans[:SPANS]:
        begin = f"{datetime.fromisoformat(span['from']):%m-%d %H:%M:%S}"
        sides = (_said(span[name]) for name in ("recorded", "replayed"))
        table.add_row(begin, str(span["ticks"]), value(span["in_force"]), *sides)
    return table


def _said(one: Doc | None) -> str:
    if one is None:
        return "nothing"
    change = "" if one["requested"] is None else f"sets {value(one['requested'])}: "
    return escape(f"{change}{one['sentence']}" + "".join(f" [{guard}]" for guard in one["guards"]))


def effect_lines(effect: Doc) -> list[str]:
    """The predicted effect in words; what is unknown is said."""
    lines = []
    step, tokens = effect["step_s"], effect["tokens_per_s"]
    if step["recorded"] is not None:
        before, after = step["recorded"], step["replayed"]
        lines.append(
            f"predicted step (time between two tokens) {before * 1e3:.3g} -> {after * 1e3:.3g} ms, mean of "
            f"{effect['predicted_ticks']} ticks"
        )
    if tokens["recorded"] is not None:
        before, after = tokens["recorded"], tokens["replayed"]
        lines.append(f"predicted throughput {before:.4g} -> {after:.4g} tokens/s")
    lines += [f"not predicted for {ticks} ticks: {why}" for why, ticks in effect["unknown_ticks"].items()]
    return lines
