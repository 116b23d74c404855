"""The ledger: written a minute at a time, rolled up to hours and days, summed where it lies.

Belongs here: its rows. Never: how entries are measured, what they cost.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    Select,
    SQLColumnExpression,
    Table,
    delete,
    func,
    literal_column,
    select,
)
from sqlalchemy.ext.asyncio import AsyncSession

from domain.ledger import FIGURES, TIMES, EnergySource, LedgerEntry, add_up
from domain.stretch import DAY_S, HOUR_S, MINUTE_S, begin
from store.columns import UtcDateTime
from store.database import Database
from store.inserting import insert_into
from store.models import UNKNOWN, Base, LedgerRow

Setting = Mapping[str, float | None]
COARSER = {MINUTE_S: HOUR_S, HOUR_S: DAY_S}
TABLE: Table = Base.metadata.tables[LedgerRow.__tablename__]
KEY = ("node", "resolution_s", "at", "setting_key", "energy_source")
MOST_NOTES = 20
LONG = timedelta(days=60)
"""To sort the rows of so long a span takes longer than to read those of a year in order."""
AT_ONCE = 10_000
"""So many settings in one question: SQLite and PostgreSQL take some 32,000 values."""


def setting_key(setting: Mapping[str, float | None]) -> str:
    """A setting as its column holds it: the same text for the same setting."""
    numbers = {name: None if value is None else float(value) for name, value in setting.items()}
    return json.dumps(numbers, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, slots=True)
class Note:
    """Why the figures of an entry do not follow on from those before."""

    at: datetime
    node: str
    gap_s: float
    text: str


async def add(session: AsyncSession, node: str, run_id: int | None, entries: Sequence[LedgerEntry]) -> None:
    """Write entries within an open transaction; one that is there already is replaced, so a write may be repeated."""
    if not entries:
        return
    rows = [{"node": node, "run_id": run_id, **_values(entry)} for entry in entries]
    statement = insert_into(session, LedgerRow)
    figures = {name: statement.excluded[name] for name in rows[0] if name not in KEY}
    await session.execute(statement.on_conflict_do_update(index_elements=KEY, set_=figures), rows)


async def roll_up(session: AsyncSession, node: str, before: datetime, resolution_s: int = MINUTE_S) -> int:
    """Make an hour of the minutes of this node's oldest hour, or a day of hours, if it ended by `before`; answers how
    many rows went.

    One piece of work that is over at once: call it until nothing is left. Within an open transaction.
    """
    fine = (LedgerRow.node == node, LedgerRow.resolution_s == resolution_s)
    oldest = await session.scalar(select(func.min(LedgerRow.at)).where(*fine))
    if oldest is None:
        return 0
    coarser_s = COARSER[resolution_s]
    end = begin(oldest, coarser_s) + timedelta(seconds=coarser_s)
    if end > before:
        return 0
    rows = (await session.scalars(select(LedgerRow).where(*fine, LedgerRow.at < end).order_by(LedgerRow.id))).all()
    for run_id in {row.run_id for row in rows}:
        await add(session, node, run_id, add_up([_entry(row) for row in rows if row.run_id == run_id], coarser_s))
    await session.execute(delete(LedgerRow).where(LedgerRow.id.in_([row.id for row in rows])))
    return len(rows)


class Ledger:
    """Every method raises HistoryUnavailable when the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, run_id: int | None, entries: Sequence[LedgerEntry]) -> None:
        """Write entries in one transaction; one that is there already is replaced."""
        async with self._database.transaction() as session:
            await add(session, self._database.node, run_id, entries)

    async def roll_up(self, before: datetime, resolution_s: int = MINUTE_S) -> int:
        """As the function of this name, in a transaction of its own."""
        async with self._database.transaction() as session:
            return await roll_up(session, self._database.node, before, resolution_s)

    async def entries(
        self,
        since: datetime,
        until: datetime,
        *,
        node: str | None = None,
        setting: Mapping[str, float | None] | None = None,
    ) -> list[LedgerEntry]:
        """Those that begin in [since, until), oldest first; of all nodes, or of one; of all settings, or of those that
        have all these values.
        """
        query = select(LedgerRow).where(*_within(since, until, node)).order_by(LedgerRow.at, LedgerRow.id)
        async with self._database.reading() as session:
            found = [_entry(row) for row in await session.scalars(query)]
        asked = (setting or {}).items()
        return [entry for entry in found if asked <= entry.setting.items()]

    async def sums(
        self, since: datetime, until: datetime, *, node: str | None = None, by_setting: bool = True
    ) -> list[LedgerEntry]:
        """As `entries`, added up by `domain.ledger.kind` in the database, or whatever the setting, which is then empty;
        notes are left out.
        """
        # By setting the span's rows have to be sorted anyway; whatever the setting, an index has them in order.
        where = _within(since, until, node, LedgerRow.at if by_setting else self._at(since, until))
        async with self._database.reading() as session:
            found = await session.execute(_summed(where, by_setting=by_setting))
            return [_sum(row) for row in found.mappings()]

    async def notes(self, since: datetime, until: datetime, *, node: str | None = None) -> list[Note]:
        """The newest that there are, oldest first."""
        query = select(LedgerRow.at, LedgerRow.node, LedgerRow.gap_s, LedgerRow.note)
        query = query.where(*_within(since, until, node), LedgerRow.note.is_not(None))
        async with self._database.reading() as session:
            rows = (await session.execute(query.order_by(LedgerRow.at.desc()).limit(MOST_NOTES))).all()
        return [Note(row.at, row.node, row.gap_s, row.note or "") for row in reversed(rows)]

    async def time_by_setting(
        self, since: datetime, until: datetime, *, node: str | None = None
    ) -> list[tuple[Setting, float]]:
        """Each setting with the seconds that were measured under it, the longest first; an empty one: not known."""
        async with self._database.reading() as session:
            found = await session.execute(self._seconds(since, until, node))
            return [(json.loads(key), float(total)) for key, total in found]

    async def longest(
        self, since: datetime, until: datetime, most: int, *, knobs: Collection[str] = (), node: str | None = None
    ) -> list[tuple[Setting, list[LedgerEntry]]]:
        """The `most` settings that were in force longest, told apart by these knobs (none: by all), each with its sums.

        A year has thousands of settings: all figures are added up only of those that are answered.
        """
        times = self._seconds(since, until, node).limit(None if knobs else most)
        found: list[tuple[Setting, list[LedgerEntry]]] = []
        async with self._database.reading() as session:
            for setting, keys in _together(await session.execute(times), knobs)[:most]:
                found.append((setting, []))
                for query in _sums_of(keys, _within(since, until, node)):
                    found[-1][1].extend(_sum(row) for row in (await session.execute(query)).mappings())
        return found

    def _seconds(self, since: datetime, until: datetime, node: str | None) -> Select[str, float]:
        seconds = func.sum(LedgerRow.seconds)
        query = select(LedgerRow.setting_key, seconds).where(*_within(since, until, node, self._at(since, until)))
        return query.group_by(LedgerRow.setting_key).order_by(seconds.desc(), LedgerRow.setting_key)

    def _at(self, since: datetime, until: datetime) -> SQLColumnExpression[datetime]:
        """SQLite would find the span by the index of its times and sort its rows; another index has them all sorted."""
        long = self._database.engine.dialect.name == "sqlite" and until - since > LONG
        return literal_column("+ledger.at", UtcDateTime()) if long else LedgerRow.at

    async def nodes(self) -> list[str]:
        """The nodes that have entries."""
        async with self._database.reading() as session:
            return list(await session.scalars(select(LedgerRow.node).distinct().order_by(LedgerRow.node)))

    async def end(self, before: datetime) -> datetime | None:
        """Where this node's newest entry ends, none that a wrong clock dated after `before`; None without one."""
        ends = []
        async with self._database.reading() as session:
            for resolution_s in (MINUTE_S, HOUR_S, DAY_S):  # one by one, as the index has them
                own = (LedgerRow.node == self._database.node, LedgerRow.resolution_s == resolution_s)
                query = select(LedgerRow).where(*own, LedgerRow.at <= before).order_by(LedgerRow.at.desc()).limit(1)
                ends += [row.at + timedelta(seconds=row.seconds) for row in await session.scalars(query)]
        return max(ends, default=None)


def _within(
    since: datetime, until: datetime, node: str | None, at: SQLColumnExpression[datetime] = LedgerRow.at
) -> list[ColumnElement[bool]]:
    found = [at >= since, at < until]
    return found if node is None else [*found, LedgerRow.node == node]


def _together(times: Iterable[tuple[str, float]], knobs: Collection[str]) -> list[tuple[Setting, list[str]]]:
    """The keys of the settings that have the same values of these knobs, the longest together first."""
    keys: dict[tuple[tuple[str, float | None], ...], list[str]] = defaultdict(list)
    seconds: dict[tuple[tuple[str, float | None], ...], float] = defaultdict(float)
    for key, total in times:
        told = tuple((name, value) for name, value in json.loads(key).items() if not knobs or name in knobs)
        keys[told].append(key)
        seconds[told] += total
    return [(dict(told), keys[told]) for told in sorted(seconds, key=lambda told: -seconds[told])]


def _sums_of(keys: Sequence[str], within: Sequence[ColumnElement[bool]]) -> Iterator[Executable]:
    """Questions for the sums of these settings together."""
    for first in range(0, len(keys), AT_ONCE):
        those = LedgerRow.setting_key.in_(keys[first : first + AT_ONCE])
        # The sign keeps SQLite from ix_ledger_kind: it would read all of the span to have few rows in order.
        yield _summed([*within, those], by_setting=False, unknown=f"+({UNKNOWN})")


def _summed(where: Sequence[ColumnElement[bool]], *, by_setting: bool, unknown: str = UNKNOWN) -> Executable:
    kind = [LedgerRow.node, LedgerRow.energy_source, *([LedgerRow.setting_key] if by_setting else [])]
    sums = [func.sum(_column(name)).label(name) for name in (*TIMES, *FIGURES)]
    begins, coarsest = func.min(LedgerRow.at).label("at"), func.max(LedgerRow.resolution_s).label("resolution_s")
    return select(*kind, begins, coarsest, *sums).where(*where).group_by(literal_column(unknown), *kind)


def _column(name: str) -> ColumnElement[float]:
    return TABLE.c[name]


def _sum(row: Any) -> LedgerEntry:
    return LedgerEntry(
        at=row["at"],
        resolution_s=row["resolution_s"],
        setting=json.loads(row.get("setting_key", "{}")),
        energy_source=EnergySource(row["energy_source"]),
        node=row["node"],
        **{name: row[name] for name in (*TIMES, *FIGURES)},
    )


def _values(entry: LedgerEntry) -> dict[str, Any]:
    return {
        "at": entry.at,
        "resolution_s": entry.resolution_s,
        "setting_key": setting_key(entry.setting),
        "energy_source": entry.energy_source.value,
        "note": entry.note,
        **{name: getattr(entry, name) for name in (*TIMES, *FIGURES)},
    }


def _entry(row: LedgerRow) -> LedgerEntry:
    return LedgerEntry(
        at=row.at,
        resolution_s=row.resolution_s,
        setting=json.loads(row.setting_key),
        energy_source=EnergySource(row.energy_source),
        note=row.note,
        node=row.node,
        **{name: getattr(row, name) for name in (*TIMES, *FIGURES)},
    )
