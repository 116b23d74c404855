"""Minutes made of single readings, hours made of minutes, a little at a time.

How far it got is a row's number, kept in the same transaction as what was made: after a crash it goes on where it
stopped. A number and not a time, because rows may come late (the history could not be written for a while) and the
clock may step back: each new row makes its stretch be made again from all rows of it.

Belongs here: the order of the work and its bounds. Never: how readings are merged (domain/stretch.py), when it runs
(controller/history/upkeep.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.stretch import AS_READ_S, HOUR_S, MINUTE_S, begin, merged
from store import readings
from store.inserting import insert_into
from store.models import KeptRow, ReadingRow

MOST_STRETCHES = 2
"""A piece makes so many neighbours at most, with a handful of statements: some tens of milliseconds."""
LOOKED_AT = 200
"""How many new rows a piece looks at, at most: so many stretches of single readings, and some more."""
GRACE = timedelta(seconds=5)
"""A stretch is closed so long after its end: its last readings may be on their way."""
STEPS = ((AS_READ_S, MINUTE_S), (MINUTE_S, HOUR_S))
MARK = "rolled_up_"
"""The names of the marks begin so. They hold numbers of rows, so in another file they mean nothing."""
Find = Callable[[AsyncSession, str, int, int], Awaitable[Sequence[tuple[int, datetime]]]]
"""What has not been rolled up of a node's resolution, after a number: the next rows' numbers and times."""


async def mark(session: AsyncSession, node: str, resolution_s: int) -> int:
    """Up to which number the rows of a resolution have been rolled up; 0: none.

    A mark beyond the newest row is of another file (the damaged one was set aside, its marks were saved): 0 as well.
    """
    same = (KeptRow.node == node) & (KeptRow.name == _name(resolution_s))
    value = await session.scalar(select(KeptRow.value).where(same))
    number = 0 if value is None else int(value["id"])
    return number if number <= await _newest(session) else 0


async def step_back(session: AsyncSession, nodes: Sequence[str]) -> None:
    """The newest rows were taken away: a mark beyond what is left would be taken for one of another file."""
    newest = await _newest(session)
    names = [_name(resolution_s) for resolution_s, _ in STEPS]
    for row in (await session.scalars(select(KeptRow).where(KeptRow.node.in_(nodes), KeptRow.name.in_(names)))).all():
        row.value = {"id": min(int(row.value["id"]), newest)}
    await session.flush()


async def _newest(session: AsyncSession) -> int:
    return await session.scalar(select(func.max(ReadingRow.id))) or 0


def _name(resolution_s: int) -> str:
    return f"{MARK}{resolution_s}"


async def _set_mark(session: AsyncSession, node: str, resolution_s: int, at: datetime, number: int) -> None:
    statement = insert_into(session, KeptRow).values(node=node, name=_name(resolution_s), at=at, value={"id": number})
    figures = {name: statement.excluded[name] for name in ("at", "value")}
    await session.execute(statement.on_conflict_do_update(index_elements=("node", "name"), set_=figures))


async def roll_up(session: AsyncSession, node: str, now: datetime, *, silent: bool = False) -> bool:
    """One piece of the work, within an open transaction; True: there is more. `silent`: the node writes no more."""
    find = _left_rows if silent else _new_rows
    for resolution_s, into_s in STEPS:
        if await _step(session, node, resolution_s, into_s, now, find):
            return True
    return False


async def _step(session: AsyncSession, node: str, resolution_s: int, into_s: int, now: datetime, find: Find) -> bool:
    done = await mark(session, node, resolution_s)
    new = await find(session, node, resolution_s, done)
    last, stretches = done, list[datetime]()
    is_open = False
    # In the order of writing up to the first that is still open: those that follow wait with it.
    for at, rows in groupby(new, lambda row: begin(row[1], into_s)):
        is_open = at + timedelta(seconds=into_s) + GRACE > now
        if is_open or (
            stretches and not stretches[0] <= at < stretches[0] + MOST_STRETCHES * timedelta(seconds=into_s)
        ):
            break
        stretches.append(at)
        last = list(rows)[-1][0]
    if stretches:
        await _make(session, node, resolution_s, into_s, sorted(set(stretches)))
        await _set_mark(session, node, resolution_s, now, last)
    return bool(stretches) and not is_open


async def _new_rows(session: AsyncSession, node: str, resolution_s: int, done: int) -> Sequence[tuple[int, datetime]]:
    # By the number alone: the index over nodes and times would be walked from its beginning each time.
    row = readings.TABLE.c
    own = (func.coalesce(row.node, "") == node) & (func.coalesce(row.resolution_s, 0) == resolution_s)
    query = select(row.id, row.at).where(row.id > done, own).order_by(row.id).limit(LOOKED_AT)
    return [(number, at) for number, at in await session.execute(query)]


async def _left_rows(session: AsyncSession, node: str, resolution_s: int, done: int) -> Sequence[tuple[int, datetime]]:
    # By the index: from the mark of a node that is silent on, most numbers are those of other nodes.
    row = readings.TABLE.c
    number = row.id + 0
    own = (row.node == node) & (row.resolution_s == resolution_s)
    query = select(row.id, row.at).where(own, number > done).order_by(number).limit(LOOKED_AT)
    return [(one, at) for one, at in await session.execute(query)]


async def _make(
    session: AsyncSession, node: str, resolution_s: int, into_s: int, stretches: Sequence[datetime]
) -> None:
    """Each stretch from all that there is of it, in place of what was made of it before."""
    parts = await readings.within(session, node, resolution_s, stretches[0], stretches[-1] + timedelta(seconds=into_s))
    made = {at: merged(list(of_it), at, into_s) for at, of_it in groupby(parts, lambda one: begin(one.at, into_s))}
    row = readings.TABLE.c
    same = (row.node == node) & (row.resolution_s == into_s) & row.at.in_(stretches)
    before = {one.at: one.samples for one in await session.execute(select(row.at, row.samples).where(same))}
    # With fewer samples it is made of stragglers: what the stretch was made of has been dropped.
    better = [made[at] for at in stretches if made[at].samples >= before.get(at, 0)]
    # Not updated in place: by its new number the next step sees that it changed.
    connection = await session.connection()
    await connection.execute(delete(readings.TABLE).where(same, row.at.in_([one.at for one in better])))
    await readings.add(session, node, better)
