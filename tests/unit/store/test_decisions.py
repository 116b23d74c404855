"""How SQLite finds decisions: what is asked decides nothing about how much is read."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from controller.history.around import around
from domain.decision import Reason, Status
from domain.outcome import Outcome, Verdict
from store.database import database_url
from store.decisions import Which
from store.history import History
from tests.changes import GROWN
from tests.views import runtime

BEGAN = GROWN.at
DECISION = replace(GROWN, outcome=Outcome(Verdict.BETTER, "Better."))
Asked = list[tuple[str, Any]]


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[History]:
    history = History(database_url(str(tmp_path / "history.db")), "node-1")
    await history.open()
    run = await history.runs.start(BEGAN, "http://127.0.0.1:8000", runtime())
    await history.decisions.add(run, [replace(DECISION, at=BEGAN + timedelta(seconds=n)) for n in range(500)])
    yield history
    await history.close()


@pytest.fixture
def asked(history: History) -> Asked:
    """Every question from now on, with its values."""
    found: Asked = []

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_rest: Any) -> None:
        if statement.lstrip().startswith(("SELECT", "WITH")):
            found.append((statement, values))

    event.listen(history.database.engine.sync_engine, "before_cursor_execute", note)
    return found


def plans(path: Path, asked: Asked) -> list[str]:
    with sqlite3.connect(path) as other:
        return [
            str(row[3])
            for statement, values in asked
            for row in other.execute(f"EXPLAIN QUERY PLAN {statement}", values)
        ]


@pytest.mark.parametrize(
    "which",
    [
        {},
        {"knob": "max_num_seqs"},
        {"policy": "batch_resize", "verdict": Verdict.WORSE},
        {"reason": Reason.GROW_DEMAND},
        {"status": Status.FAILED},
        {"node": "node-1"},
        {"changes_only": True},
        {"since": BEGAN, "until": BEGAN + timedelta(days=40)},
        {"since": BEGAN, "knob": "max_num_seqs", "before_id": 400},
    ],
)
@pytest.mark.parametrize("analysed", [False, True])
async def test_decisions_are_found_in_one_index_and_only_those_found_are_read(
    history: History, asked: Asked, tmp_path: Path, which: Which, analysed: bool
) -> None:
    """With the statistics of PRAGMA optimize as well as without."""
    if analysed:
        with sqlite3.connect(tmp_path / "history.db") as other:
            other.execute("ANALYZE")
    await history.decisions.select(limit=50, **which)
    steps = plans(tmp_path / "history.db", asked)
    assert any("COVERING INDEX ix_decisions_find" in step for step in steps)
    for step in [step for step in steps if "decisions" in step]:
        # By number, and nothing is sorted: with a limit the reading ends once it is reached.
        assert "USING INTEGER PRIMARY KEY" in step or "ix_decisions_find" in step


@pytest.mark.parametrize("analysed", [False, True])
async def test_of_a_short_span_no_other_numbers_are_read(
    history: History, asked: Asked, tmp_path: Path, analysed: bool
) -> None:
    if analysed:
        with sqlite3.connect(tmp_path / "history.db") as other:
            other.execute("ANALYZE")
    await history.decisions.select(since=BEGAN, until=BEGAN + timedelta(hours=1), status=Status.APPLIED)
    steps = plans(tmp_path / "history.db", asked)
    assert sum("COVERING INDEX ix_decisions_at (at>? AND at<?)" in step for step in steps) == 2
    assert any("ix_decisions_find (id>? AND id<?)" in step or "(rowid>? AND rowid<?)" in step for step in steps), steps


async def test_what_was_in_force_is_one_step_into_an_index_for_each_knob(
    history: History, asked: Asked, tmp_path: Path
) -> None:
    await history.moments.at(BEGAN + timedelta(minutes=5))
    steps = plans(tmp_path / "history.db", [one for one in asked if "FROM decisions" in one[0]])
    reads = [step for step in steps if "decisions" in step]
    assert len(reads) == 2
    assert "USING INTEGER PRIMARY KEY" in reads[0]
    assert "USING INDEX ix_decisions_run (run_id=? AND knob=? AND at<?)" in reads[1]


async def test_no_table_of_thousands_is_read_through_to_explain_a_decision(
    history: History, asked: Asked, tmp_path: Path
) -> None:
    found = await history.decisions.one(250)
    assert found is not None
    await around(history, found[0])
    steps = plans(tmp_path / "history.db", asked)
    assert len(steps) > 10
    assert not [step for step in steps if step.startswith("SCAN") and "COVERING INDEX" not in step]


async def test_the_newest_chunks_are_counted_without_reading_chunks(history: History, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "history.db") as other:
        rows = other.execute(
            "EXPLAIN QUERY PLAN SELECT id FROM recordings WHERE node = 'node-1' ORDER BY id DESC LIMIT 1 OFFSET 9"
        ).fetchall()
    assert [row[3] for row in rows] == ["SEARCH recordings USING COVERING INDEX ix_recordings_node (node=?)"]
