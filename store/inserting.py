"""Inserts that may be repeated: SQLite and PostgreSQL say it alike, SQLAlchemy has one class for each.

Belongs here: choosing between the two. Never: what is inserted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncSession

from store.models import Base

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


def insert_into(session: AsyncSession, table: type[Base]) -> sqlite.Insert | postgresql.Insert:
    """An insert that knows `on_conflict_do_nothing` and `on_conflict_do_update`.

    Only the database's own dialect is loaded: PostgreSQL's is some megabytes.
    """
    if session.get_bind().dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)
