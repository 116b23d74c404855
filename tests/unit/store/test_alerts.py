"""Alerts on a real SQLite file: what is written together, what may be repeated, what a silence is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from domain.incident import Delivery, DeliveryStatus, IncidentState
from domain.silence import Matcher, Silence
from store.database import database_url
from store.history import History
from store.outbox import WriterOutbox
from store.writes import PutSilence, SaveAlerts
from tests.listener import told
from tests.told import NOON, incident
from tests.writers import locked, until_failing, writing, written

SILENCE = Silence(
    (Matcher("alertname", "kv_.*", is_regex=True), Matcher("severity", "info", is_equal=False)),
    NOON,
    NOON + timedelta(hours=2),
    "the admin token from 127.0.0.1",
    "the disk is being changed",
)


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[History]:
    history = History(database_url(str(tmp_path / "h.db")), "gpu1")
    await history.open()
    yield history
    await history.close()


async def test_what_belongs_together_is_written_together_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    async with writing(path, "gpu1") as writer:
        writer.put(SaveAlerts(NOON, [incident("sound")], [told(1)], {"sequence": 1}))
        dropped = writer.put(SaveAlerts(NOON, [incident("lost")], [told(2)], {"sequence": object()}))
        await written(writer)
        assert dropped.dropped
        history = History(database_url(str(path)), "gpu1")
        assert [one.rule for one in await history.alerts.firing()] == ["sound"]
        assert [one.notification.uid for one in await history.alerts.due()] == ["n-1"]
        assert await history.alerts.state() == {"sequence": 1}
        await history.close()


async def test_a_save_that_is_repeated_changes_nothing(history: History) -> None:
    fires, ended = incident(), incident(over_after_s=60.0)
    for _ in range(2):
        await history.alerts.save(NOON, [fires], [told(1)], {"sequence": 1})
    await history.alerts.save(NOON, [ended], [told(2)], None)
    await history.alerts.mark([Delivery(told(1), DeliveryStatus.DELIVERED, 1, delivered_at=NOON)])
    await history.alerts.save(NOON, [fires], [told(1)], {"sequence": 1})
    assert await history.alerts.incidents() == [ended]
    assert await history.alerts.firing() == []
    assert [one.notification.uid for one in await history.alerts.due()] == ["n-2"]
    assert await history.alerts.state() == {"sequence": 1}


async def test_what_is_over_stays_as_it_was_marked(history: History) -> None:
    await history.alerts.save(NOON, (), [told(1), told(2)])
    delivered = Delivery(told(1), DeliveryStatus.DELIVERED, 3, delivered_at=NOON)
    failed = Delivery(told(2), DeliveryStatus.FAILED, 1, error="HTTP 400")
    await history.alerts.mark([delivered, failed])
    await history.alerts.mark([Delivery(told(1), attempts=1), Delivery(told(2), DeliveryStatus.DELIVERED, 2)])
    assert await history.alerts.deliveries() == [delivered, failed]


async def test_a_mark_of_what_is_not_there_puts_it_there(history: History) -> None:
    """Its row was lost with a damaged file, or there was no room for it in memory."""
    waits = Delivery(told(1), attempts=2, not_before=NOON + timedelta(seconds=30), error="HTTP 503")
    await history.alerts.mark([waits])
    assert await history.alerts.due() == [waits]


async def test_what_waits_stays_in_its_order_whatever_it_is_marked_as(history: History) -> None:
    await history.alerts.save(NOON, (), [told(number) for number in range(5)])
    await history.alerts.mark([Delivery(told(0), attempts=4, error="HTTP 503")])
    assert [one.notification.uid for one in await history.alerts.due()] == [f"n-{number}" for number in range(5)]


async def test_one_that_took_up_others_is_told_whole_after_a_restart(history: History) -> None:
    await history.alerts.save(NOON, (), [told(1), told(2)])
    whole = replace(told(2), incidents=(*told(1).incidents, *told(2).incidents))
    await history.alerts.mark([Delivery(told(1), DeliveryStatus.FAILED, error="taken up"), Delivery(whole)])
    assert [one.notification for one in await history.alerts.due()] == [whole]


async def test_the_newest_of_a_receiver_and_of_a_kind_are_found_oldest_first(history: History) -> None:
    await history.alerts.save(NOON, (), [told(number, f"r{number % 2}") for number in range(6)])
    await history.alerts.mark([Delivery(told(3, "r1"), DeliveryStatus.FAILED)])
    found = await history.alerts.deliveries(receiver="r1", limit=2)
    assert [one.notification.uid for one in found] == ["n-3", "n-5"]
    failed = await history.alerts.deliveries(status=DeliveryStatus.FAILED)
    assert [one.notification.uid for one in failed] == ["n-3"]


async def test_incidents_are_found_by_span_state_and_node(history: History) -> None:
    several = [incident(f"r{minute}", starts_at=NOON + timedelta(minutes=minute)) for minute in range(4)]
    over = replace(several[2], state=IncidentState.RESOLVED, ends_at=NOON + timedelta(minutes=9))
    await history.alerts.save(NOON, [*several, over])
    assert await history.alerts.incidents(since=several[1].starts_at, until=several[3].starts_at) == [several[1], over]
    assert await history.alerts.incidents(state=IncidentState.RESOLVED) == [over]
    assert await history.alerts.incidents(limit=1) == [several[3]]
    assert await history.alerts.incidents(node="gpu2") == []


async def test_a_silence_comes_back_until_it_ends_or_is_ended(history: History) -> None:
    number = await history.alerts.put_silence(SILENCE)
    assert await history.alerts.silences(NOON) == [replace(SILENCE, id=number)]
    assert await history.alerts.silences(SILENCE.ends_at) == []
    assert await history.alerts.end_silence(number, NOON + timedelta(hours=1))
    assert await history.alerts.silences(NOON + timedelta(hours=1)) == []
    assert not await history.alerts.end_silence(number, NOON + timedelta(hours=2))
    assert not await history.alerts.end_silence(number + 1, NOON)


async def test_a_silence_that_is_put_twice_is_one_and_another_is_another(history: History) -> None:
    number = await history.alerts.put_silence(SILENCE)
    assert await history.alerts.put_silence(SILENCE) == number
    other = replace(SILENCE, matchers=(Matcher("alertname", "x"),))
    assert await history.alerts.put_silence(other) != number


async def test_names_and_comments_that_are_too_long_are_cut(history: History) -> None:
    await history.alerts.put_silence(replace(SILENCE, created_by="a" * 1000, comment="b" * 10_000))
    (stored,) = await history.alerts.silences(NOON)
    assert (len(stored.created_by), len(stored.comment)) == (255, 2000)


async def test_a_silence_over_the_writer_answers_its_number(tmp_path: Path) -> None:
    async with writing(tmp_path / "h.db", "gpu1") as writer:
        put = PutSilence(SILENCE)
        assert await writer.commit(put, 10.0)
        ended = await writer.run(lambda history: history.alerts.end_silence(put.numbers[0], NOON), 10.0)
        assert ended is True


async def test_a_mark_is_not_waited_for_where_the_history_is_broken_and_is_written_later(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    async with writing(path, "gpu1") as writer:
        outbox = WriterOutbox(writer, 600.0)
        with locked(path):
            outbox.note([Delivery(told(1))])
            await until_failing(writer)
            async with asyncio.timeout(30.0):
                await outbox.mark(Delivery(told(1), DeliveryStatus.DELIVERED, 1, delivered_at=NOON))
        await written(writer)
        assert await writer.run(lambda history: history.alerts.due(), 5.0) == []
