"""`vllm-governor db check`: what was found, in a terminal or as JSON.

Belongs here: how it looks. Never: what is a fault (db_findings.py), queries (store/check.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from controller.cli.db_findings import Finding, findings
from controller.cli.histories import reading
from controller.cli.plain_json import dumps
from controller.cli.terminal import console
from store.check import Facts, TableFacts, look_over

MOST_NODES = 20
"""In the terminal; JSON has all."""


async def run(db: str | None, *, full: bool, as_json: bool) -> bool:
    """Look and print; answers whether a fault was found. Raises SettingsError and HistoryUnavailable."""
    async with reading(db, any_schema=True) as history:
        facts = await look_over(history.database, datetime.now(UTC), full=full)
    found = findings(facts)
    if as_json:
        typer.echo(dumps(_to_json(facts, found)))
    else:
        _show(facts, found)
    return any(one.fault for one in found)


def _show(facts: Facts, found: Sequence[Finding]) -> None:
    terminal = console()
    for line in _words(facts):
        terminal.print(escape(line), highlight=False)
    if facts.tables:
        terminal.print(_table(facts.tables))
    for line in _nodes(facts):
        terminal.print(escape(line), highlight=False)
    for one in found:
        style, word = ("red", "fault") if one.fault else ("yellow", "note")
        terminal.print(f"[{style}]{word}[/{style}]: {escape(one.sentence)}", highlight=False)
    if not any(one.fault for one in found):
        terminal.print("[green]No fault was found.[/green]")


def _words(facts: Facts) -> Iterator[str]:
    schema = "unknown" if facts.schema is None else facts.schema.name or "none"
    yield f"{facts.where}: schema {schema}, {facts.backend}"
    sizes = {"": facts.total_bytes, "log ": facts.wal_bytes, "free on its disk ": facts.free_bytes}
    told = [f"{name}{size(value)}" for name, value in sizes.items() if value is not None]
    if told:
        yield f"Size: {', '.join(told)}"


def _table(tables: Sequence[TableFacts]) -> Table:
    table = Table()
    table.add_column("table", no_wrap=True)
    for name in ("rows", "size"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("oldest (UTC)", "newest (UTC)"):
        table.add_column(name, no_wrap=True)
    for one in tables:
        table.add_row(one.name, f"{one.rows:,}", size(one.bytes), _time(one.oldest), _time(one.newest))
    return table


def _nodes(facts: Facts) -> Iterator[str]:
    """Who wrote how much of what."""
    names = sorted({node for one in facts.tables for node in one.nodes})
    for name in names[:MOST_NODES]:
        rows = ", ".join(f"{one.name} {one.nodes[name]:,}" for one in facts.tables if name in one.nodes)
        yield f"{name or '(no node: written by an older version, or by a command)'}: {rows}"
    if len(names) > MOST_NODES:
        yield f"... and {len(names) - MOST_NODES} nodes more (--json has all)"


def size(value: int | None) -> str:
    """Bytes for people."""
    if value is None:
        return "-"
    if value < 1_000_000:
        return f"{value / 1e3:.0f} kB"
    return f"{value / 1e6:.1f} MB" if value < 1_000_000_000 else f"{value / 1e9:.1f} GB"


def _time(value: datetime | None) -> str:
    return "-" if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def _to_json(facts: Facts, found: Sequence[Finding]) -> Mapping[str, Any]:
    return {
        "history": facts.where,
        "backend": facts.backend,
        "schema": None if facts.schema is None else facts.schema.name,
        "bytes": facts.total_bytes,
        "wal_bytes": facts.wal_bytes,
        "free_bytes": facts.free_bytes,
        "damage": facts.damage,
        "tables": {one.name: _one(one) for one in facts.tables},
        "cut_off_changes": facts.cut_off,
        "undelivered": facts.undelivered,
        "undeliverable": facts.undeliverable,
        "set_aside": [str(path) for path in facts.set_aside],
        "findings": [{"fault": one.fault, "sentence": one.sentence} for one in found],
    }


def _one(facts: TableFacts) -> Mapping[str, Any]:
    return {
        "rows": facts.rows,
        "bytes": facts.bytes,
        "oldest": None if facts.oldest is None else facts.oldest.isoformat(),
        "newest": None if facts.newest is None else facts.newest.isoformat(),
        "dated_ahead": facts.future,
        "nodes": facts.nodes,
    }
