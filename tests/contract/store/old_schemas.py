"""Histories as older versions wrote them: tests/data/schemas has a dump of each released schema, made by its own code.

Belongs here: putting one into a database. Never: what must become of it.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, MetaData, create_engine, func, select, text

from store import schema
from store.database import Limits, create, sqlite_path

FOLDER = Path(__file__).parents[2] / "data" / "schemas"
RELEASED = sorted(path.stem for path in FOLDER.glob("*.sql"))


def _to_revision(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


async def put(url: str, revision: str, folder: Path) -> None:
    """A SQLite file out of the dump; on another database the migrations up to `revision` and the dump's rows."""
    dump = (FOLDER / f"{revision}.sql").read_text()
    file = sqlite_path(url) or folder / "dump.db"
    with sqlite3.connect(file) as old:
        old.executescript(dump)
    old.close()
    if sqlite_path(url) is not None:
        return
    engine = create(url, Limits())
    async with engine.begin() as connection:
        await connection.run_sync(_to_revision, revision)
        await connection.run_sync(_copy, file)
    await engine.dispose()


def _copy(connection: Connection, file: Path) -> None:
    source, target = MetaData(), MetaData()
    dumped = create_engine(f"sqlite:///{file}")
    source.reflect(dumped)
    target.reflect(connection)
    with dumped.connect() as old:
        for table in target.sorted_tables:
            if table.name == "alembic_version":
                continue
            rows = [_zoned(row._mapping) for row in old.execute(select(source.tables[table.name]))]
            if not rows:
                continue
            connection.execute(table.insert(), rows)
            if "id" in table.c:  # as if the rows had been numbered there
                last = connection.scalar(select(func.max(table.c.id)))
                connection.execute(
                    text("SELECT setval(pg_get_serial_sequence(:name, 'id'), :last)"),
                    {"name": table.name, "last": last},
                )
    dumped.dispose()


def _zoned(row: Any) -> dict[str, Any]:
    return {name: value.replace(tzinfo=UTC) if isinstance(value, datetime) else value for name, value in row.items()}
