"""`vllm-governor db prune`: what would go, then doing it, with its progress.

Belongs here: the words, the table, the bar. Never: what is old (store/prune.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from controller.cli.histories import reading
from controller.cli.noting import note
from controller.cli.terminal import console
from store.database import Database
from store.prune import Old, Prunable, old, prune, vacuum


@dataclass(frozen=True, slots=True)
class Pruning:
    """What was asked for."""

    before: datetime
    tables: tuple[Prunable, ...]
    vacuum: bool
    dry: bool
    ask: bool


async def run(db: str | None, wanted: Pruning) -> None:
    """Tell, ask, do. Raises SettingsError and HistoryUnavailable."""
    async with reading(db) as history:
        found = [await old(history.database, name, wanted.before) for name in wanted.tables]
        console().print(_table(found, wanted.before))
        rows = sum(one.old for one in found)
        # The count cannot tell them yet: rows that are to be deleted still refer to them.
        runs = " and each old run that no row refers to then" if Prunable.RUNS in wanted.tables and rows else ""
        if wanted.dry:
            typer.echo(f"{rows:,} rows would be deleted{runs}. Nothing was changed.")
            return
        if rows and wanted.ask:
            typer.confirm(f"Delete {rows:,} rows of {history.where}{runs}?", abort=True)
        began = datetime.now(UTC)
        deleted = await _delete(history.database, found, wanted.before)
        typer.echo(f"Deleted {deleted:,} rows." + ("" if wanted.vacuum else " The room is used for new ones."))
        if deleted:
            detail = {"before": wanted.before.isoformat(), "tables": list(wanted.tables), "rows": deleted}
            await note(history, began, "db.prune", detail)
        if wanted.vacuum:
            await vacuum(history.database)
            typer.echo("The free room was given back to the disk.")


async def _delete(database: Database, found: list[Old], before: datetime) -> int:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    deleted = 0
    with Progress(*columns, console=console(), transient=True) as progress:
        for one in found:
            task = progress.add_task(one.table, total=one.old)
            async for count in prune(database, one.table, before):
                deleted += count
                progress.advance(task, count)
    return deleted


def _table(found: list[Old], before: datetime) -> Table:
    table = Table(title=f"Older than {before.astimezone(UTC):%Y-%m-%d %H:%M} UTC", title_justify="left")
    table.add_column("table", no_wrap=True)
    for name in ("rows", "to be deleted", "left"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        table.add_row(one.table, f"{one.rows:,}", f"{one.old:,}", f"{one.rows - one.old:,}")
    return table
