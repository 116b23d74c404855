"""Opening the database: SQLite's pragmas, migrations, the URL.

Belongs here: the engine and the schema's version. Never: rows.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from domain.errors import HistoryUnavailable, SettingsError

BUSY_TIMEOUT_MS = 5000


def database_url(text: str) -> str:
    """A SQLAlchemy URL as it is; anything else is the path of a SQLite file."""
    if "://" not in text:
        return f"sqlite+aiosqlite:///{Path(text).expanduser()}"
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise SettingsError(f"cannot use the database URL {text!r}: {error}") from error
    return url.set(drivername="sqlite+aiosqlite").render_as_string(False) if url.drivername == "sqlite" else text


def sqlite_path(url: str) -> Path | None:
    """The file behind a SQLite URL, None for another database or for memory."""
    parsed = make_url(url)
    if not parsed.drivername.startswith("sqlite") or not parsed.database or parsed.database == ":memory:":
        return None
    return Path(parsed.database)


def _pragmas(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_TIMEOUT_MS}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def create(url: str) -> AsyncEngine:
    """An engine for `url`; SQLite in WAL mode with foreign keys, each commit on disk before it returns."""
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
        async with engine.begin() as connection:
            await connection.run_sync(_alembic)
    except (OSError, SQLAlchemyError) as error:
        where = path or engine.url.render_as_string(hide_password=True)
        raise HistoryUnavailable(
            f"cannot open the history at {where}: {_first_line(error)}; its directory must exist and be writable"
        ) from error


def _first_line(error: BaseException) -> str:
    original = getattr(error, "orig", None) or error
    return str(original).splitlines()[0]
