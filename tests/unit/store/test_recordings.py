"""Outcomes, recordings and kept values on a real SQLite file, and the migration that brought them."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

from domain.errors import HistoryUnavailable
from store import schema
from store.database import database_url
from store.history import Chunk, History
from tests.changes import GROWN
from tests.contract.store.samples import OUTCOME
from tests.views import runtime

BEGAN = GROWN.at
DECISION = replace(GROWN, diagnoses=("queue_bound: Much is spent waiting.",))


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[History]:
    history = History(database_url(str(tmp_path / "history.db")), "node-1")
    await history.open()
    yield history
    await history.close()


def chunk(minute: int, body: bytes = b"x") -> Chunk:
    at = BEGAN + timedelta(minutes=minute)
    return Chunk(at, at + timedelta(seconds=29), 30, body)


async def test_an_outcome_is_written_to_its_decision_and_comes_back_whole(history: History) -> None:
    first, second = (replace(DECISION, uid=uid) for uid in ("u1", "u2"))
    one, other = await history.decisions.add(None, [first, second])
    await history.decisions.judge({"u2": OUTCOME})
    stored = await history.decisions.select(limit=9)
    assert [(row.id, row.decision) for row in stored] == [
        (one, replace(first, node="node-1")),
        (other, replace(second, node="node-1", outcome=OUTCOME)),
    ]


async def test_one_decision_comes_with_its_run(history: History) -> None:
    run = await history.runs.start(BEGAN, "http://127.0.0.1:8000", runtime())
    (alone,), (within,) = [await history.decisions.add(number, [DECISION]) for number in (None, run)]
    found = await history.decisions.one(within)
    assert found is not None
    row, stored_run = found
    assert row.decision == replace(DECISION, boot_id="boot-a", node="node-1", uid=row.decision.uid)
    assert stored_run is not None
    assert (stored_run.id, stored_run.node, stored_run.vllm_version) == (run, "node-1", "0.32.0")
    assert stored_run.envelope["max_num_seqs"] == 64
    found = await history.decisions.one(alone)
    assert found is not None
    assert found[1] is None
    assert await history.decisions.one(999) is None


async def test_decisions_since_a_moment_leave_the_older_ones_out(history: History) -> None:
    old = replace(DECISION, at=BEGAN - timedelta(hours=1))
    _, new = await history.decisions.add(None, [old, DECISION])
    assert [row.id for row in await history.decisions.select(limit=9, since=BEGAN)] == [new]


async def test_chunks_come_back_in_order_page_by_page(history: History) -> None:
    run = await history.runs.start(BEGAN, "http://127.0.0.1:8000", runtime())
    for minute in range(5):
        await history.recordings.add(run, chunk(minute, bytes([minute])), keep=10)
    first = await history.recordings.select(limit=2)
    rest = await history.recordings.select(after_id=first[-1].id)
    assert [stored.chunk for stored in (*first, *rest)] == [chunk(minute, bytes([minute])) for minute in range(5)]
    assert {stored.run_id for stored in rest} == {run}
    assert await history.recordings.select(after_id=rest[-1].id) == []


async def test_chunks_that_end_before_since_are_left_out(history: History) -> None:
    for minute in range(3):
        await history.recordings.add(None, chunk(minute), keep=10)
    since = chunk(1).to_at
    assert [stored.chunk.from_at for stored in await history.recordings.select(since=since)] == [
        chunk(minute).from_at for minute in (1, 2)
    ]


async def test_the_newest_chunks_are_kept_whatever_the_clock_said(history: History) -> None:
    """A wrong clock wrote the first ones far in the future: they go first all the same."""
    for minute in (600_000, 600_001, 0, 1, 2):
        await history.recordings.add(None, chunk(minute), keep=3)
    assert [stored.chunk.from_at for stored in await history.recordings.select()] == [
        chunk(minute).from_at for minute in (0, 1, 2)
    ]


async def test_the_file_stops_growing_once_old_chunks_are_dropped(history: History, tmp_path: Path) -> None:
    def pages() -> int:
        with sqlite3.connect(tmp_path / "history.db") as other:
            return int(other.execute("PRAGMA page_count").fetchone()[0])

    for minute in range(20):
        await history.recordings.add(None, chunk(minute, b"y" * 10_000), keep=10)
    full = pages()
    for minute in range(20, 60):
        await history.recordings.add(None, chunk(minute, b"y" * 10_000), keep=10)
    assert pages() <= full + 3


async def test_a_value_is_kept_replaced_and_forgotten(history: History) -> None:
    assert await history.kept.get("refuted") is None
    await history.kept.put("refuted", BEGAN, {"a": [1, None]})
    await history.kept.put("refuted", BEGAN, {"a": 2})
    await history.kept.put("other", BEGAN, {})
    assert await history.kept.get("refuted") == {"a": 2}
    await history.kept.put("refuted", BEGAN, None)
    assert await history.kept.get("refuted") is None
    assert await history.kept.get("other") == {}


def _at_revision(path: Path, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    with create_engine(f"sqlite:///{path}").begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


async def test_a_history_of_the_first_version_is_brought_up_with_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    _at_revision(path, "0001")
    with sqlite3.connect(path) as old:
        old.execute("INSERT INTO runs VALUES (1, '2026-01-01 12:00:00', 'n', 'u', 'boot-a', '0.32.0', '0.1.0', '{}')")
        old.execute(
            "INSERT INTO decisions VALUES (7, 1, '2026-01-01 12:00:00', 'auto', 'batch_resize', 'max_num_seqs', "
            "8, 16, 16, 16, 'applied', 'grow_demand', 'Growing 8 -> 16.', '{}', '[]', NULL)"
        )
    history = History(database_url(str(path)))
    await history.open()
    (row,) = await history.decisions.select(limit=9)
    assert (row.id, row.run_id) == (7, 1)
    assert row.decision == replace(DECISION, boot_id="boot-a", diagnoses=(), node="n")
    assert await history.decisions.add(1, [replace(DECISION, uid="u8")]) == [8]
    await history.decisions.judge({"u8": OUTCOME})
    await history.recordings.add(1, chunk(0), keep=1)
    first, second = await history.decisions.select(limit=9)
    assert (first.decision.outcome, second.decision.outcome) == (None, OUTCOME)
    await history.close()


async def test_a_history_that_cannot_be_written_says_so(history: History, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "history.db") as other:
        other.execute("DROP TABLE recordings")
    with pytest.raises(HistoryUnavailable, match="no such table: recordings"):
        await history.recordings.add(None, chunk(0), keep=1)
