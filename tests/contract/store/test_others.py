"""Recordings, kept values and the audit: one law for every database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from domain.audit import Action
from store.history import History
from tests.contract.store.samples import AT, ENGINE, chunk
from tests.views import runtime

ACTION = Action(AT, "127.0.0.1", "rollback", "max_num_seqs", "ok", {"to": 8, "all": None}, "request-1")


async def test_chunks_come_back_byte_by_byte_in_order_page_by_page(history: History) -> None:
    run = await history.runs.start(AT, ENGINE, runtime())
    for minute in range(5):
        await history.recordings.add(run, chunk(minute), keep=10)
    first = await history.recordings.select(limit=2)
    rest = await history.recordings.select(after_id=first[-1].id)
    assert [stored.chunk for stored in (*first, *rest)] == [chunk(minute) for minute in range(5)]
    assert {stored.run_id for stored in rest} == {run}
    assert [s.chunk for s in await history.recordings.select(since=chunk(3).to_at)] == [chunk(3), chunk(4)]


async def test_the_newest_chunks_stay_and_one_that_is_written_twice_is_one(history: History) -> None:
    for minute in (0, 1, 2, 2, 3):
        await history.recordings.add(None, chunk(minute), keep=3)
    assert [stored.chunk for stored in await history.recordings.select()] == [chunk(minute) for minute in (1, 2, 3)]


async def test_a_value_is_kept_replaced_and_forgotten(history: History) -> None:
    assert await history.kept.get("refuted") is None
    await history.kept.put("refuted", AT, {"a": [1, None]})
    await history.kept.put("refuted", AT, {"a": 2})
    await history.kept.put("other", AT, {})
    assert await history.kept.get("refuted") == {"a": 2}
    await history.kept.put("refuted", AT, None)
    assert await history.kept.get("refuted") is None
    assert await history.kept.get("other") == {}


async def test_what_an_operator_did_comes_back_once(history: History) -> None:
    other = replace(ACTION, at=AT + timedelta(seconds=5), action="gpu.release", request_id=None)
    for action in (ACTION, ACTION, other):
        await history.audit.add(action)
    written = [replace(action, node="gpu1") for action in (ACTION, other)]
    assert await history.audit.actions() == written
    assert await history.audit.actions(since=other.at) == written[1:]
    assert await history.audit.actions(until=other.at) == written[:1]
    assert await history.audit.actions(action="gpu.release") == written[1:]
    assert await history.audit.actions(limit=1) == written[1:]
    assert await history.audit.actions(node="gpu2") == []
