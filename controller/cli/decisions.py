"""`vllm-governor decisions`: the history as a table or as JSON lines.

Belongs here: how a decision looks in a terminal. Never: queries.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from domain.decision import Decision, Status
from domain.errors import HistoryUnavailable, SettingsError
from store.database import database_url, sqlite_path
from store.history import History, StoredDecision

STYLES = {
    Status.APPLIED: "green",
    Status.FAILED: "red",
    Status.DIVERGED: "red",
    Status.INTENDED: "yellow",
    Status.RECORDED: "cyan",
    Status.HOLD: "dim",
}


def decisions(
    db: Annotated[str | None, typer.Option(help="Path of the SQLite file, or a SQLAlchemy URL.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, with the evidence.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many, counted from the newest.")] = 50,
    knob: Annotated[str | None, typer.Option(help="Only this knob, for example max_num_seqs.")] = None,
    changes: Annotated[bool, typer.Option("--changes", help="Leave the holds out.")] = False,
) -> None:
    """Show what was decided, why, and what the engine then read.

    Examples:

      vllm-governor decisions --db /var/lib/vllm-governor/vllm-governor.db --changes

      vllm-governor decisions --db vllm-governor.db --json | jq 'select(.status == "applied")'
    """
    if db is None:
        raise SettingsError("cannot tell which history: name it with --db PATH (store.url of the daemon's settings)")
    path = sqlite_path(database_url(db))
    if path is not None and not path.is_file():
        what = "it is a directory" if path.is_dir() else "there is no such file"
        raise HistoryUnavailable(f"cannot read the history at {path}: {what}; name the file with --db")
    stored = asyncio.run(_load(db, limit, knob, changes))
    if as_json:
        for row in stored:
            typer.echo(json.dumps(_to_json(row)))
    else:
        # Piped output is not cut to the width of a terminal that is not there.
        console = Console() if Console().is_terminal else Console(width=200)
        console.print(_table(stored) if stored else "No decisions yet.")


async def _load(db: str, limit: int, knob: str | None, changes_only: bool) -> list[StoredDecision]:
    history = History(database_url(db))
    try:
        return await history.decisions(limit=limit, knob=knob, changes_only=changes_only)
    finally:
        await history.close()


def _to_json(row: StoredDecision) -> dict[str, Any]:
    return {"id": row.id, **asdict(row.decision), "at": row.decision.at.isoformat()}


def _table(stored: list[StoredDecision]) -> Table:
    table = Table(title=f"{len(stored)} decision{'s' if len(stored) != 1 else ''}", title_justify="left")
    for name in ("id", "time (UTC)", "mode", "knob"):
        table.add_column(name, no_wrap=True)
    for name in ("old", "wanted", "requested", "observed"):
        table.add_column(name, justify="right")
    table.add_column("status", no_wrap=True)
    table.add_column("reason")
    table.add_column("why", ratio=1)
    for row in stored:
        table.add_row(str(row.id), *_cells(row.decision))
    return table


def _cells(decision: Decision) -> list[str]:
    notes = [*decision.guards, *([decision.error] if decision.error else [])]
    why = escape(decision.sentence + "".join(f" [{note}]" for note in notes))
    style = STYLES[decision.status]
    return [
        decision.at.strftime("%m-%d %H:%M:%S"),
        decision.mode,
        decision.knob,
        *(
            "-" if v is None else f"{v:g}"
            for v in (decision.old, decision.wanted, decision.requested, decision.observed)
        ),
        f"[{style}]{decision.status}[/{style}]",
        decision.reason,
        why,
    ]
