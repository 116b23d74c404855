"""How large a SQLite file is, and what takes the room. Belongs here: looking. Never: making the file."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

OWNERS = "SELECT name, tbl_name FROM sqlite_schema WHERE type IN ('table', 'index')"
SIZES = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name"


def size_bytes(path: Path) -> int:
    """Of the file and of what SQLite keeps beside it."""
    return sum(
        one.stat().st_size
        for one in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm")))
        if one.exists()
    )


def by_table(path: Path) -> dict[str, int] | None:
    """Bytes of each table with its indexes, the largest first; None where this SQLite has no dbstat."""
    connection = sqlite3.connect(path)
    try:
        owners = dict(connection.execute(OWNERS))
        found: Counter[str] = Counter()
        for name, size in connection.execute(SIZES):
            found[owners.get(name, name)] += size
        return dict(found.most_common())
    except sqlite3.OperationalError:
        return None
    finally:
        connection.close()
