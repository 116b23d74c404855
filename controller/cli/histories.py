"""The history that a command reads, how far back, and whose rows.

Belongs here: `--db`, `--config`, `--since` and `--node`. Never: what is read.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from controller.cli import names
from controller.cli.words import UNITS
from domain.errors import HistoryUnavailable, SettingsError
from store import unwritable
from store.database import database_url, sqlite_path
from store.history import History
from store.revision import require_current

Db = Annotated[
    str | None,
    typer.Option(
        help="Read the history itself, not the daemon: the path of the SQLite file, or a SQLAlchemy URL.",
        show_default="ask the daemon",
    ),
]
StoreDb = Annotated[str | None, typer.Option(help="Path of the SQLite file, or a SQLAlchemy URL.")]
StoreConfig = Annotated[
    Path | None,
    typer.Option(
        "--config", envvar="VLLM_GOVERNOR_CONFIG", help="The daemon's settings: without --db its store.url is read."
    ),
]


@asynccontextmanager
async def reading(db: str | None, config: Path | None = None, *, any_schema: bool = False) -> AsyncIterator[History]:
    """The history to read. Raises SettingsError when none was named, HistoryUnavailable when there is none, or one of
    another version that the command cannot read (`any_schema`: it can).
    """
    if db is None and config is not None:
        from controller import settings as settings_module

        db = settings_module.load(config).store.url
    if db is None:
        raise SettingsError("cannot tell which history: name it with --db PATH, or the daemon's settings with --config")
    path = sqlite_path(database_url(db))
    if path is not None and (problem := unwritable.reading_problem(path)) is not None:
        raise HistoryUnavailable(problem)
    if path is not None and not path.is_file():
        what = "it is a directory" if path.is_dir() else "there is no such file"
        raise HistoryUnavailable(f"cannot read the history at {path}: {what}; name the file with --db")
    history = History(database_url(db), to_read=True)
    try:
        if not any_schema:
            await require_current(history.database)
        yield history
    finally:
        await history.close()


async def one_node(history: History, asked: str | None, since: datetime | None) -> str | None:
    """The node whose rows are meant, where those of several would make no sense together: the one that was asked for,
    or the only one that wrote since then. None: nobody did. Raises SettingsError that names those there are.
    """
    there = {*await history.decisions.nodes(since), *await history.recordings.nodes(since)}
    nodes = sorted(there - {""}) or sorted(there)  # without a name: from before there were any
    listed = names.listed(nodes)
    if asked is not None:
        if there and asked not in there:
            raise SettingsError(f"cannot use --node {asked}: it wrote nothing in that time; there are rows of {listed}")
        return asked
    if len(nodes) > 1:
        raise SettingsError(
            f"cannot take the decisions of {len(nodes)} nodes together: choose one of {listed} with --node"
        )
    return nodes[0] if nodes else None


def in_order(since: datetime | None, until: datetime | None) -> None:
    """Raises SettingsError for a span that ends before it begins."""
    if since is not None and until is not None and since >= until:
        raise SettingsError(
            f"cannot use a span from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M}: --since must lie before --until"
        )


def moment(text: str, now: datetime, option: str = "--since") -> datetime:
    """`8h`, `30m`, `2d` or `90s` before `now`, or a time as 2026-01-31T08:00, in UTC without a zone.

    Raises SettingsError.
    """
    back = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    try:
        if back is not None:
            return now - timedelta(**{UNITS[back[2]]: float(back[1])})
        at = datetime.fromisoformat(text.strip())
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).astimezone(UTC)  # beyond year 1 and 9999
    except (ValueError, OverflowError) as error:
        raise SettingsError(
            f"cannot use {option} {text}: it is neither a length of time as 8h or 30m nor a time as 2026-01-31T08:00"
        ) from error
