"""`vllm-governor db migrate`: from which schema to which, the copy to make first, and doing it.

Belongs here: the words and their order. Never: a migration (store/migrations).
"""

from __future__ import annotations

from datetime import UTC, datetime

import typer

from controller.cli.histories import reading
from controller.cli.noting import note
from store.database import sqlite_path
from store.history import History
from store.revision import revision
from store.schema import HEAD


async def run(db: str | None, *, ask: bool) -> None:
    """Tell, ask, do. Raises SettingsError, HistoryUnavailable, NewerSchema."""
    async with reading(db, any_schema=True) as history:
        before = await revision(history.database)
        if before.current:
            typer.echo(f"The history at {history.where} has schema {HEAD} already: nothing is to be done.")
            return
        if before.newer:
            await history.open()  # it says what is wrong, and changes nothing
        has = f"schema {before.name}" if before.name is not None else "no schema"
        typer.echo(f"The history at {history.where} has {has}; this version needs {HEAD}.")
        if before.name is not None:
            for line in _advice(history):
                typer.echo(line)
            if ask:
                typer.confirm("Migrate now?", abort=True)
        began = datetime.now(UTC)
        await history.open()
        await note(history, began, "db.migrate", {"from": before.name, "to": HEAD})
        typer.echo(f"Migrated: it has schema {HEAD} now.")


def _advice(history: History) -> tuple[str, str]:
    path = sqlite_path(history.url)
    copy = "pg_dump of the database" if path is None else f"sqlite3 {path} \".backup '{path}.before-{HEAD}'\""
    return (
        "An older version cannot read it afterwards. Stop every daemon of an older version that writes it.",
        f"A copy to go back to: {copy}",
    )
