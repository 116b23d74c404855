"""Whose fault it is that a write failed: its own, the database's, or nobody knows.

Belongs here: telling by the error. Never: what follows from it (store/scribe.py), what kind of trouble the database has
(store/health.py).
"""

from __future__ import annotations

import sqlite3
from enum import Enum

from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError

from domain.errors import HistoryUnavailable


class Blame(Enum):
    """Who is at fault."""

    WRITE = "write"
    """It can never be written, now or later."""
    DATABASE = "database"
    """It does not answer, lacks a table, a column or a right: the write can wait, however long that takes."""
    UNKNOWN = "unknown"


_OF_THE_WRITE = ("22", "23")
"""PostgreSQL's classes of SQLSTATE: a value that no column takes, a constraint."""
_OF_THE_DATABASE = ("08", "28", "3D", "3F", "42", "53", "55", "57", "58")
"""Connections, rights, databases, schemas, tables and columns that are not there, resources, an operator, the disk."""
_SQLITE = {sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG}
_LACKS = ("no such table", "no such column", "has no column named")
"""What SQLite says of these has a code that it uses for much else."""


def blame(error: BaseException) -> Blame:
    """Errors that are no database's are the write's own: it is code of ours that failed."""
    cause = error.__cause__ if isinstance(error, HistoryUnavailable) and error.__cause__ is not None else error
    if isinstance(cause, (OSError, HistoryUnavailable)):
        return Blame.DATABASE
    if not isinstance(cause, DBAPIError):
        return Blame.WRITE
    if cause.connection_invalidated:
        return Blame.DATABASE
    state, code = (getattr(cause.orig, name, None) for name in ("sqlstate", "sqlite_errorcode"))
    if state is not None:
        kind = state[:2]
        return Blame.WRITE if kind in _OF_THE_WRITE else Blame.DATABASE if kind in _OF_THE_DATABASE else Blame.UNKNOWN
    if code is not None and code & 0xFF in _SQLITE:
        return Blame.WRITE
    if any(words in str(cause.orig) for words in _LACKS):
        return Blame.DATABASE
    return Blame.UNKNOWN if isinstance(cause, (OperationalError, InterfaceError, InternalError)) else Blame.WRITE
