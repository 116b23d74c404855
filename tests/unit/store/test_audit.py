"""The audit on a real SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domain.audit import Action
from store.database import database_url
from store.history import History

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
ACTION = Action(
    at=AT,
    actor="the admin token from 127.0.0.1",
    action="rollback",
    target="/api/v1/rollback",
    result="ok",
    detail={"method": "POST"},
    request_id="a" * 32,
)


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[History]:
    history = History(database_url(str(tmp_path / "h.db")), "node-1")
    await history.open()
    yield history
    await history.close()


async def test_an_action_comes_back_as_it_went_in_with_its_node(history: History) -> None:
    await history.audit.add(ACTION)
    assert await history.audit.actions() == [replace(ACTION, node="node-1")]


async def test_a_request_that_is_written_twice_is_one_row(history: History) -> None:
    await history.audit.add(ACTION)
    await history.audit.add(ACTION)
    await history.audit.add(replace(ACTION, request_id="b" * 32))
    assert [one.request_id for one in await history.audit.actions()] == ["a" * 32, "b" * 32]


async def test_actions_without_a_request_are_each_a_row(history: History) -> None:
    for _ in range(2):
        await history.audit.add(replace(ACTION, request_id=None))
    assert len(await history.audit.actions()) == 2


async def test_the_newest_of_a_span_and_of_a_kind_are_found_oldest_first(history: History) -> None:
    for minute in range(6):
        kind = "undo" if minute % 2 else "rollback"
        await history.audit.add(
            replace(ACTION, at=AT + timedelta(minutes=minute), action=kind, request_id=f"{minute}", target=f"{minute}")
        )
    span = await history.audit.actions(since=AT + timedelta(minutes=1), until=AT + timedelta(minutes=5))
    assert [one.target for one in span] == ["1", "2", "3", "4"]
    assert [one.target for one in await history.audit.actions(action="undo", limit=2)] == ["3", "5"]
    assert await history.audit.actions(node="node-2") == []


async def test_what_a_caller_made_too_long_is_cut_and_not_refused(history: History) -> None:
    await history.audit.add(replace(ACTION, actor="a" * 1000, action="b" * 1000, target="c" * 10_000))
    (stored,) = await history.audit.actions()
    assert (len(stored.actor), len(stored.action), len(stored.target)) == (255, 64, 2000)
