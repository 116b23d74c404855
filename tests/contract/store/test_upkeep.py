"""Checking, pruning and exporting a history, on every database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from domain.decision import Status
from domain.errors import HistoryUnavailable
from store.check import Facts, look_over
from store.export import Exported, Kind, Wanted, batches, fields
from store.history import History
from store.models import Base
from store.prune import Prunable, old, prune, vacuum
from store.revision import require_current, revision
from store.schema import HEAD
from tests.filled import LATE, NODE, NOW, OLD, decision, fill

BEFORE = NOW - timedelta(days=30)


@pytest.fixture
async def full(history: History) -> History:
    await fill(history)
    return history


async def look(history: History) -> Facts:
    return await look_over(history.database, NOW, full=True)


async def test_all_that_is_in_a_history_is_told(full: History) -> None:
    facts = await look(full)
    assert facts.problems == ()
    assert not facts.damage
    assert facts.schema is not None
    assert facts.schema.current
    tables = {one.name: one for one in facts.tables}
    assert set(tables) == set(Base.metadata.tables)
    decisions = tables["decisions"]
    assert (decisions.rows, decisions.oldest, decisions.newest) == (6, OLD, LATE)
    assert decisions.nodes == {full.node: 6}
    assert (tables["quarantine"].rows, tables["quarantine"].nodes) == (2, {})
    assert (tables["kept"].rows, tables["silences"].newest) == (1, None)
    assert all(one.bytes for one in facts.tables)
    assert facts.total_bytes
    assert (facts.undelivered, facts.undeliverable, facts.cut_off) == (2, 0, 0)
    assert NODE in tables["readings"].nodes


async def test_rows_dated_ahead_and_changes_that_were_cut_off_are_counted(full: History) -> None:
    ahead = decision(NOW + timedelta(days=400), 7)
    lost = decision(LATE, 8, status=Status.INTENDED)
    under_way = decision(NOW, 9, status=Status.INTENDED)
    await full.decisions.add(None, [ahead, lost, under_way])
    facts = await look(full)
    (decisions,) = (one for one in facts.tables if one.name == "decisions")
    assert decisions.future == 1
    assert facts.cut_off == 1


async def test_an_empty_database_is_looked_over_and_refused_for_the_rest(history: History, full: History) -> None:
    async with history.database.transaction() as session:
        connection = await session.connection()
        await connection.run_sync(Base.metadata.drop_all)
        await connection.exec_driver_sql("DROP TABLE alembic_version")
    facts = await look(history)
    assert (facts.problems, facts.tables) == ((), ())
    assert (await revision(history.database)).name is None
    with pytest.raises(HistoryUnavailable, match=f"it has no schema and this version needs {HEAD}"):
        await require_current(history.database)


async def test_pruning_leaves_the_late_the_firing_the_waiting_and_the_newest(full: History) -> None:
    rows: dict[str, int] = {}
    for name in Prunable:
        told = await old(full.database, name, BEFORE)
        deleted = sum([count async for count in prune(full.database, name, BEFORE)])
        rows[name] = deleted
        if name is not Prunable.RUNS:  # at the count their rows still referred to them
            assert told.old == deleted
    assert rows == {
        "recordings": 1,
        "readings": 1,
        "ledger": 1,
        "decisions": 3,
        "deliveries": 1,
        "alerts": 1,
        "silences": 1,
        "actions": 1,
        "quarantine": 1,
        "runs": 1,
    }
    facts = {one.name: one for one in (await look(full)).tables}
    assert (facts["alerts"].rows, facts["deliveries"].rows, facts["runs"].rows) == (3, 3, 1)
    await vacuum(full.database)


async def test_a_run_that_rows_refer_to_is_kept_and_so_is_the_newest(full: History) -> None:
    assert [count async for count in prune(full.database, Prunable.RUNS, NOW)] == []
    for name in Prunable:
        async for _ in prune(full.database, name, NOW):
            pass
    assert (await old(full.database, Prunable.RUNS, NOW)).rows == 1


async def test_many_rows_go_in_pieces_while_another_writes(full: History) -> None:
    await full.decisions.add(None, [decision(OLD, number) for number in range(100, 2100)])
    other = History(full.url, "gpu2")
    pieces: list[int] = []

    async def write() -> int:
        written = 0
        while len(pieces) < 3:
            await other.decisions.add(None, [decision(LATE, 5000 + written)])
            written += 1
        return written

    writing = asyncio.create_task(write())
    async for count in prune(full.database, Prunable.DECISIONS, BEFORE):
        pieces += [count]
    written = await writing
    await other.close()
    assert sum(pieces) == 2003
    assert len(pieces) >= 3
    assert (await old(full.database, Prunable.DECISIONS, BEFORE)).rows == 3 + written


async def rows(history: History, wanted: Wanted, size: int = 2000) -> list[Sequence[Any]]:
    return [row async for batch in batches(history.database, wanted, size) for row in batch]


@pytest.mark.parametrize("table", Exported)
async def test_every_row_comes_once_in_order_whatever_the_batch(full: History, table: Exported) -> None:
    found = await rows(full, Wanted(table), size=1)
    assert found == await rows(full, Wanted(table))
    numbers = [row[0] for row in found]
    assert numbers == sorted(set(numbers))
    assert len(found) >= 2
    assert all(len(row) == len(fields(table)) for row in found)


async def test_rows_have_the_kinds_that_are_told(full: History) -> None:
    kinds = {one.name: one.kind for one in fields(Exported.DECISIONS)}
    assert (kinds["id"], kinds["at"], kinds["old"], kinds["evidence"], kinds["sentence"]) == (
        Kind.INTEGER,
        Kind.TIME,
        Kind.NUMBER,
        Kind.JSON,
        Kind.TEXT,
    )
    names = list(kinds)
    one = dict(zip(names, (await rows(full, Wanted(Exported.DECISIONS)))[0], strict=True))
    assert one["at"] == OLD
    assert one["old"] == float("inf")
    assert one["observed"] is None
    assert one["evidence"] == {"waiting": 30, "gpu_utilization_ratio": None}


async def test_a_span_and_a_node_are_what_is_exported(full: History) -> None:
    async def count(since: Any = None, until: Any = None, node: str | None = None) -> int:
        return len(await rows(full, Wanted(Exported.DECISIONS, since, until, node)))

    assert await count() == 6
    assert await count(since=LATE) == 3
    assert await count(until=LATE) == 3
    assert await count(node=full.node) == 6
    assert await count(node="gpu9") == 0


async def test_rows_that_come_during_an_export_are_left_out(full: History) -> None:
    found = 0
    async for batch in batches(full.database, Wanted(Exported.DECISIONS), 2):
        found += len(batch)
        await full.decisions.add(None, [decision(LATE, 50 + found)])
    assert found == 6
