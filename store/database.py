"""Opening the database: SQLite's pragmas, migrations, the URL.

Belongs here: the engine and the schema's version. Never: rows.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from domain.errors import HistoryUnavailable, SettingsError

BUSY_TIMEOUT_MS = 1000
"""A tick waits this long for another process's lock, then says so."""
BACKENDS = {"sqlite": "sqlite+aiosqlite"}
"""Database to its asynchronous driver."""


def database_url(text: str) -> str:
    """A SQLAlchemy URL as it is; anything else is the path of a SQLite file. Raises SettingsError."""
    if "://" not in text:
        return URL.create("sqlite+aiosqlite", database=str(Path(text).expanduser())).render_as_string(False)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise SettingsError("cannot use the database URL: it is not of the form driver://user@host/name") from error
    if url.get_backend_name() not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise SettingsError(f"cannot use a {url.get_backend_name()} database for the history: it takes {known}")
    return url.set(drivername=BACKENDS[url.get_backend_name()]).render_as_string(False)


def sqlite_path(url: str) -> Path | None:
    """The file behind a SQLite URL, None for another database or for memory."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        return None
    return Path(parsed.database)


def _pragmas(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    for pragma in ("synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_TIMEOUT_MS}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def create(url: str) -> AsyncEngine:
    """An engine for `url`; SQLite with foreign keys, each commit on disk before it returns."""
    engine = create_async_engine(url)
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "connect", _pragmas)
    return engine


def _alembic(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


async def migrate(engine: AsyncEngine) -> None:
    """Bring the schema to the newest version. Raises HistoryUnavailable naming the file and what it needs."""
    path = sqlite_path(str(engine.url))
    try:
        if path is not None:
            await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
            async with engine.connect() as connection:  # kept in the file: readers never change it
                await connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        async with engine.begin() as connection:
            await connection.run_sync(_alembic)
    except CommandError as error:
        raise HistoryUnavailable(
            f"cannot open the history at {path or engine.url.render_as_string()}: a newer vllm-governor wrote it "
            f"({error}); use that one, or name another file"
        ) from error
    except (OSError, SQLAlchemyError) as error:
        where = path or engine.url.render_as_string(hide_password=True)
        raise HistoryUnavailable(
            f"cannot open the history at {where}: {_first_line(error)}; its directory must exist and be writable"
        ) from error


def _first_line(error: BaseException) -> str:
    original = getattr(error, "orig", None) or error
    return str(original).splitlines()[0]
