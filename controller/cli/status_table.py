"""The status in a terminal.

Belongs here: words and colours. Never: where it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from controller.cli.main_signals import MAIN_SIGNALS
from controller.cli.terminal import console
from controller.cli.words import length, moment, number, value

Doc = Mapping[str, Any]


def show(found: Doc) -> None:
    """Print it to the standard output."""
    terminal = console()
    for part in parts(found):
        terminal.print(part)


def parts(found: Doc) -> Iterator[RenderableType]:
    """The problems first, then one line for each thing."""
    yield from problems(found)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(ratio=1)
    for name, text in _lines(found):
        grid.add_row(name, escape(text))
    yield grid
    signals = Table(title="Signals", title_justify="left")
    signals.add_column("signal", no_wrap=True)
    signals.add_column("now", justify="right")
    for name in MAIN_SIGNALS:
        signals.add_row(name, number(found["signals"].get(name)))
    yield signals


def problems(found: Doc) -> Iterator[str]:
    """A line for each; one line when all is well."""
    if not found["problems"]:
        yield "[green]All is well.[/green]"
    for one in found["problems"]:
        yield f"[bold red]{escape(one['what'])}[/bold red]: {escape(one['reason'])}; {escape(one['remedy'])}"


def mode(found: Doc) -> str:
    """The mode in force, and why it is not the configured one."""
    text = str(found["in_force"])
    if found["in_force"] != found["configured"]:
        text += f" (configured: {found['configured']})"
    if found["changed"] is not None:
        text += f", set at run time by {found['changed']['actor']}, the file says {found['file']}"
    return text + (f": {found['because']}" if found["because"] else "")


def engine(found: Doc) -> str:
    """Which engine, and whether it answers."""
    if not found["answers"]:
        return f"{found['url']}, does not answer"
    text = f"{found['url']}, vLLM {found['vllm_version']}, plugin {found['plugin_version']}, boot {found['boot_id']}"
    return text + (f"; held by {found['held_by']}, so this daemon only observes" if found["held_by"] else "")


def objective(one: Doc) -> str:
    """How one objective is kept."""
    bound = f"{one['latency']} P{one['percentile']:g} within {one['bound_s']:g} s"
    own = " (proposed)" if one["proposed"] else ""
    if one["over_ratio"] is None:
        return f"{bound}{own}: no samples"
    kept = "kept" if one["over_ratio"] <= one["allowed_ratio"] + 1e-9 else "MISSED"
    return f"{bound}{own}: {one['over_ratio']:.1%} over, {one['allowed_ratio']:.1%} allowed, {kept}"


def _lines(found: Doc) -> Iterator[tuple[str, str]]:
    ticks, history = found["ticks"], found["history"]
    yield "daemon", f"{found['node']}, version {found['version']}, since {moment(found['started_at'])} UTC"
    yield "mode", mode(found["mode"])
    if found["mode"]["maintenance"] is not None:
        yield "", f"maintenance {found['mode']['maintenance']} until {moment(found['mode']['maintenance_until'])} UTC"
    yield "engine", engine(found["engine"])
    for core in found["engine"]["cores"]:
        yield f"  core {core['index']}", _core(core)
    yield "GPUs", ", ".join(found["gpus"]) or "none is read"
    last = f"last at {moment(ticks['succeeded_at'])} UTC" + ("" if ticks["fresh"] else ", STANDING STILL")
    yield "loop", f"{ticks['ticks']} ticks of {ticks['tick_s']:g} s, {ticks['failed']} failed, {last}"
    for source in found["sources"]:
        age = "never" if source["age_s"] is None else f"{length(source['age_s'])} ago"
        yield f"  {source['name']}", age + (f": {source['problem']}" if source["problem"] else "")
    waiting = f", {history['pending']} writes wait" if history["pending"] else ""
    size = "" if history["file_bytes"] is None else f", {history['file_bytes'] / 1e6:.1f} MB"
    yield "history", history["where"] + size + waiting + (f": {history['problem']}" if history["problem"] else "")
    for place, one in enumerate(found["objectives"]):
        yield "" if place else "objectives", objective(one)
    if not found["objectives"]:
        yield "objectives", "none is in force"
    if (rollback := found["rollback"]) is not None:
        doing = "being undone" if rollback["undoing"] else "until `vllm-governor undo`"
        yield "rollback", f"in force since {moment(rollback['since'])} UTC, {doing}"
    for place, one in enumerate(found["overrides"]):
        yield "" if place else "overrides", override(one)
    for place, one in enumerate(found["diagnoses"]):
        yield "" if place else "diagnosed", one["sentence"] + (f" {one['action']}" if one["action"] else "")


def override(one: Doc) -> str:
    """An operator's word on a knob."""
    text = f"{one['knob']} = {value(one['value'])} for another {length(one['left_s'])}, by {one['actor']}"
    text += f" ({one['comment']})" if one["comment"] else ""
    return text + (f"; not in force: {one['withheld']}" if one["withheld"] else "")


def _core(core: Doc) -> str:
    lease = core["lease_remaining_s"]
    text = f"{core['running']} running, {core['waiting']} waiting, "
    text += "not steered" if lease is None else f"lease for {lease:.0f} s"
    return text + (", draining" if core["draining"] else "") + "".join(f"; degraded: {one}" for one in core["degraded"])
