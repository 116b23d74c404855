"""The schema's version: made new, found right, or brought up by Alembic.

Belongs here: which of the three a database needs. Never: a change to the schema (store/migrations), rows.

Alembic and what it imports take 12 MB. Only an older database needs it, so only that start of the daemon loads it.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, PrimaryKeyConstraint, String, Table, inspect, select

from domain.errors import NewerSchema
from store.models import Base

__all__ = ["HEAD", "VERSION", "NewerSchema", "bring_up", "is_current", "upgrade"]

HEAD = "0005"
"""The newest revision in store/migrations/versions, which is what store/models.py describes."""
VERSION = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Alembic's own table."""
_LOCK = 0x76676F76
"""Of PostgreSQL's advisory locks the one that stands for the schema: any number that others do not use."""


def bring_up(connection: Connection) -> bool:
    """Make the tables in an empty database, upgrade an older one; True: it was empty. Raises NewerSchema or
    SQLAlchemyError.
    """
    if connection.dialect.name == "postgresql":  # two daemons may begin at once; SQLite's transaction is a lock already
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    tables = inspect(connection).get_table_names()
    if not tables:
        Base.metadata.create_all(connection)
        VERSION.create(connection)
        connection.execute(VERSION.insert().values(version_num=HEAD))
    elif not is_current(connection):
        upgrade(connection)
    return not tables


def is_current(connection: Connection) -> bool:
    """Whether nothing is to be done."""
    if not inspect(connection).has_table(VERSION.name):
        return False
    return connection.scalars(select(VERSION.c.version_num)).all() == [HEAD]


def upgrade(connection: Connection) -> None:
    """Run the migrations that the database lacks. Raises NewerSchema when it has one that is not known here."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise NewerSchema(str(error)) from error
