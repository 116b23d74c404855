"""What of the facts about a history is a fault, and what an operator may want to know.

Belongs here: bounds, sentences, remedies. Never: looking (store/check.py), how it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from store.check import Facts
from store.database import MB
from store.revision import Revision
from store.schema import HEAD

LEAST_FREE_BYTES = 100_000_000
"""With less, the disk is full soon, whoever fills it."""
LARGE_WAL_BYTES = 64 * MB
"""The daemon cuts the log back to `store.wal_max_mb`, 64 by default, unless a reader holds it up."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`fault`: somebody has to do something about it."""

    sentence: str
    fault: bool


def findings(facts: Facts) -> list[Finding]:
    """The faults first."""
    faults = [Finding(one, fault=True) for one in _faults(facts)]
    return faults + [Finding(one, fault=False) for one in _notes(facts)]


def _faults(facts: Facts) -> Iterator[str]:
    yield from facts.problems
    if facts.schema is not None and not facts.schema.current:
        yield _schema(facts.schema)
    for line in facts.damage or ():
        yield f"the file is damaged: {line}"
    if facts.damage:
        yield (
            "the daemon sets a damaged file aside whole and begins a new one; `sqlite3 FILE .recover` gets out what "
            "can still be read"
        )
    for table in facts.tables:
        if table.future:
            yield (
                f"{table.future:,} rows of {table.name} are dated later than now: a clock was wrong; the daemon moves "
                "them to the table quarantine"
            )
    if facts.free_bytes is not None and facts.free_bytes < LEAST_FREE_BYTES:
        yield f"the disk is nearly full: {facts.free_bytes / 1e6:.0f} MB are free; make room, or lower store.max_mb"


def _schema(schema: Revision) -> str:
    if schema.newer:
        return f"a newer vllm-governor wrote it (schema {schema.name}, this one knows {HEAD}): use that one"
    if schema.name is None:
        return "there is no history in it: the daemon's start, or `db migrate`, makes one"
    return (
        f"schema {schema.name} is older than this version's {HEAD}: the daemon's start, or `db migrate`, brings it up"
    )


def _notes(facts: Facts) -> Iterator[str]:
    if facts.cut_off:
        yield (
            f"{facts.cut_off:,} changes were intended and never concluded: the daemon ended in between "
            "(`decisions` shows them as intended)"
        )
    if facts.undelivered:
        yield f"{facts.undelivered:,} notifications wait to be delivered"
    if facts.undeliverable:
        yield f"{facts.undeliverable:,} notifications were given up: their receivers refused them"
    quarantined = sum(one.rows for one in facts.tables if one.name == "quarantine")
    if quarantined:
        yield f"{quarantined:,} rows that a wrong clock dated into the future are in the table quarantine"
    if facts.wal_bytes is not None and facts.wal_bytes > LARGE_WAL_BYTES:
        yield (
            f"the write-ahead log has {facts.wal_bytes / 1e6:.0f} MB: a reader that stays open keeps the daemon from "
            "cutting it back"
        )
    for path in facts.set_aside:
        yield f"{path} was found corrupt and set aside; delete it with its -wal and -shm when nobody needs it"
