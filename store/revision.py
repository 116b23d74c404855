"""Which schema a database has, without changing it.

Belongs here: reading the version, and refusing to work on another. Never: bringing it up (store/schema.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, inspect, select

from domain.errors import HistoryUnavailable
from store.database import Database
from store.schema import HEAD, VERSION

_VERSIONS = Path(__file__).parent / "migrations" / "versions"


@dataclass(frozen=True, slots=True)
class Revision:
    """The schema of one database."""

    name: str | None
    """None: nothing in it is ours."""
    tables: frozenset[str]
    """All tables that are there."""

    @property
    def current(self) -> bool:
        """It is what this version reads and writes."""
        return self.name == HEAD

    @property
    def newer(self) -> bool:
        """A version of this program wrote it that came after this one."""
        return self.name is not None and self.name not in _known()


async def revision(database: Database) -> Revision:
    """Read it. Raises HistoryUnavailable."""
    async with database.reading() as session:
        connection = await session.connection()
        return await connection.run_sync(_read)


async def require_current(database: Database) -> None:
    """Raises HistoryUnavailable where the schema is not that of this version, with what to do."""
    found = await revision(database)
    if found.current:
        return
    if found.newer:
        raise HistoryUnavailable(
            f"cannot use the history at {database.where}: a newer vllm-governor wrote it (schema {found.name}, this "
            f"one knows {HEAD}); use that one"
        )
    has = "no schema" if found.name is None else f"schema {found.name}"
    raise HistoryUnavailable(
        f"cannot use the history at {database.where}: it has {has} and this version needs {HEAD}; bring it up with "
        "`vllm-governor db migrate`"
    )


def _read(connection: Connection) -> Revision:
    tables = frozenset(inspect(connection).get_table_names())
    name = connection.scalar(select(VERSION.c.version_num)) if VERSION.name in tables else None
    return Revision(name, tables)


def _known() -> frozenset[str]:
    return frozenset(path.name.split("_")[0] for path in _VERSIONS.glob("[0-9]*_*.py"))
