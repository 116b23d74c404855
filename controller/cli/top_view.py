"""The picture of `top`.

Belongs here: how a look is drawn. Never: calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from controller.cli.signals_table import milliseconds
from controller.cli.status_table import engine, mode, override
from controller.cli.top_data import Frame
from controller.cli.words import clock_time, number, value

BARS = "▁▂▃▄▅▆▇█"
CURVE = 40
"""Points of a curve that are drawn."""
SHARES = ("kv_cache_usage_ratio", "goodput_ratio", "gpu_utilization_ratio", "gpu_memory_usage_ratio")
LOAD = (
    ("requests/s", "requests_per_s"),
    ("tokens/s", "generation_tokens_per_s"),
    ("running", "running"),
    ("waiting", "waiting"),
    ("KV cache", "kv_cache_usage_ratio"),
    ("goodput", "goodput_ratio"),
)
BESIDE = (
    ("cache hits", "cache_hit_ratio"),
    ("oldest waits", "oldest_waiting_s"),
    ("preempted/s", "preemptions_per_s"),
    ("rejected", "rejected_ratio"),
    ("GPU busy", "gpu_utilization_ratio"),
    ("GPU memory", "gpu_memory_usage_ratio"),
    ("GPU power", "gpu_power_w"),
    ("J/token", "joules_per_token"),
)
UNITS = {"oldest_waiting_s": " s", "gpu_power_w": " W"}
PERCENT = {*SHARES, "cache_hit_ratio", "rejected_ratio"}
STYLES = {"applied": "green", "failed": "red", "diverged": "red", "partial": "red", "recorded": "cyan"}
Doc = Mapping[str, Any]


def picture(frame: Frame) -> RenderableType:
    """All of it."""
    return Group(*_parts(frame))


def _parts(frame: Frame) -> Iterator[RenderableType]:
    status = frame.status
    yield _head(status)
    if frame.lost is not None:
        yield Text(f"OLD: {frame.lost}", style="bold red")
    for one in status["problems"]:
        yield Text(f"{one['what']}: {one['reason']}; {one['remedy']}", style="red")
    for alert in frame.alerts["alerts"]:
        if alert["state"] == "firing":
            said = alert["annotations"].get("description") or alert["annotations"].get("summary", "")
            yield Text(f"ALERT {alert['alertname']} ({alert['severity']}): {said}", style="yellow")
    load, latencies = _load(frame), _latencies(frame)
    yield Columns([Panel(load, title="load"), Panel(latencies, title="latency against objectives")], padding=(0, 1))
    yield Panel(_knobs(frame.knobs["knobs"]), title="knobs")
    yield Panel(_decisions(frame.decisions), title="last changes")


def _head(status: Doc) -> RenderableType:
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    at = "no tick yet" if status["at"] is None else f"{clock_time(status['at'])} UTC"
    pace = "" if status["ticks"]["fresh"] else "  STANDING STILL"
    grid.add_row(f"[bold]{escape(status['node'])}[/bold]  {escape(engine(status['engine']))}", at + pace)
    rolled = "" if status["rollback"] is None else "  [bold red]ROLLED BACK[/bold red]"
    held = f"{len(status['overrides'])} overrides" if status["overrides"] else ""
    grid.add_row(f"mode [bold]{escape(mode(status['mode']))}[/bold]{rolled}", held)
    return grid


def _load(frame: Frame) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, style="cyan")
    signals = frame.status["signals"]
    for label, name in LOAD:
        table.add_row(label, _shown(name, signals.get(name)), curve(frame.curves[name], share=name in SHARES))
    beside = Table.grid(padding=(0, 1))
    for _ in range(4):
        beside.add_column(no_wrap=True)
    cells = [(label, _shown(name, signals.get(name))) for label, name in BESIDE]
    for left, right in zip(cells[::2], cells[1::2], strict=True):
        beside.add_row(*left, *right)
    both = Table.grid()
    both.add_row(table)
    both.add_row(beside)
    return both


def _latencies(frame: Frame) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("latency", no_wrap=True)
    for name in ("P50", "P95", "P99", "objective", "over"):
        table.add_column(name, justify="right", no_wrap=True)
    objectives = {one["latency"]: one for one in frame.status["objectives"]}
    for one in frame.signals["latencies"]:
        aim, over, style = _kept(objectives.get(one["name"]))
        shown = (milliseconds(one[name]) for name in ("p50_s", "p95_s", "p99_s"))
        table.add_row(one["name"].replace("request_", ""), *shown, aim, over, style=style)
    return table


def _kept(objective: Doc | None) -> tuple[str, str, str]:
    """The aim, how it is kept, in which colour."""
    if objective is None:
        return "", "", "dim"
    aim = f"P{objective['percentile']:g} {milliseconds(objective['bound_s'])}"
    over = objective["over_ratio"]
    if over is None:
        return aim, "-", ""
    return aim, f"{over:.1%}", "green" if over <= objective["allowed_ratio"] + 1e-9 else "bold red"


def _knobs(knobs: Sequence[Doc]) -> RenderableType:
    if not knobs:
        return Text("The engine does not answer.", style="red")
    table = Table(box=SIMPLE_HEAD, pad_edge=False, expand=True)
    table.add_column("knob", no_wrap=True)
    for name in ("now", "start-up", "bounds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why", ratio=1, no_wrap=True, overflow="ellipsis")
    for one in knobs:
        if one["support"] == "off":
            continue
        bounds = f"{value(one['minimum'])} .. {value(one['maximum'])}"
        last = one["last"]
        why = "" if last is None else str(last["sentence"])
        if one["override"] is not None:
            why = f"override: {override(one['override'])}"
        row = (one["name"], value(one["value"]), value(one["startup"]), bounds, why)
        table.add_row(*map(escape, row), style="bold" if one["override"] is not None else "")
    return table


def _decisions(decisions: Sequence[Doc]) -> RenderableType:
    if not decisions:
        return Text("None yet.", style="dim")
    table = Table.grid(padding=(0, 1), expand=True)
    for _ in range(4):
        table.add_column(no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for one in decisions:
        change = f"{value(one['old'])} -> {value(one['requested'] if one['requested'] is not None else one['wanted'])}"
        outcome = "" if one["outcome"] is None else f", {one['outcome']['verdict']}"
        status = f"[{STYLES.get(one['status'], 'default')}]{one['status']}{outcome}[/]"
        table.add_row(clock_time(one["at"]), escape(one["knob"]), change, status, escape(one["sentence"]))
    return table


def curve(points: Sequence[float | None], *, share: bool) -> str:
    """The last points as bars, a gap where a value is not known. `share`: from 0 to 1, not to the highest."""
    shown = points[-CURVE:]
    known = [one for one in shown if one is not None]
    if not known:
        return ""
    high = 1.0 if share else max(*known, 1e-9)
    return "".join(" " if one is None else BARS[min(int(max(one, 0.0) / high * 8), 7)] for one in shown)


def _shown(name: str, one: float | None) -> str:
    if one is None:
        return "-"
    return f"{one:.0%}" if name in PERCENT else number(one) + UNITS.get(name, "")
