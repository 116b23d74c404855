"""A3: a receiver that is busy, down, refusing or silent; over real HTTP, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from alerts.delivery import Deliveries
from domain.incident import DeliveryStatus
from tests.listener import Kept, Listener, listening, settings, told
from tests.virtual_time import VirtualClock
from tests.waiting import PATIENCE_S

OUTAGE_S = 600.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def end(clock: VirtualClock) -> AsyncIterator[Listener]:
    async with listening(clock) as listener:
        yield listener


@asynccontextmanager
async def sending(
    outbox: Kept, clock: VirtualClock, timeout_s: float = 10.0, max_pending: int = 1000, **urls: str
) -> AsyncIterator[Deliveries]:
    """One webhook for each of `urls`."""
    given = {name: {"url": url, "timeout_s": timeout_s, "max_pending": max_pending} for name, url in urls.items()}
    clock.parties = len(urls)
    deliveries = Deliveries(settings(**given), outbox, clock)
    deliveries.start()
    try:
        yield deliveries
    finally:
        await deliveries.stop(5.0)


async def test_a_429_is_tried_again_after_the_time_that_it_names_and_then_delivered(
    clock: VirtualClock, end: Listener
) -> None:
    """429 with `Retry-After: 30`, then 200."""
    outbox = Kept()
    end.answer = lambda _: (429, {"Retry-After": "30"}) if len(end.got) == 1 else (200, {})
    async with sending(outbox, clock, ops=end.url) as deliveries:
        deliveries.put([told(1), told(2)])
        await clock.pass_s(29.9)
        assert end.got == [(0.0, "n-1")]
        assert outbox.kept["n-1"].status is DeliveryStatus.PENDING
        assert "HTTP 429" in str(outbox.kept["n-1"].error)
        await clock.pass_s(1.0)
        assert end.got[1:] == [(30.0, "n-1"), (30.0, "n-2")]
        assert (outbox.kept["n-1"].status, outbox.kept["n-1"].attempts) == (DeliveryStatus.DELIVERED, 2)
        assert deliveries.states()["ops"].failing_s == 0.0


async def test_ten_minutes_of_503_draw_few_posts_and_lose_nothing(clock: VirtualClock, end: Listener) -> None:
    """503 for 10 min, then 200: all arrive in order, soon after it is up again."""
    end.answer = lambda _: (503, {}) if clock.s < OUTAGE_S else (200, {})
    async with sending(Kept(), clock, ops=end.url) as deliveries:
        for number in range(60):
            deliveries.put([told(number)])
            await clock.pass_s(OUTAGE_S / 60)
        assert 10 <= len(end.got) <= 30
        assert 500.0 < deliveries.states()["ops"].failing_s <= OUTAGE_S
        assert deliveries.states()["ops"].pending == 60
        await clock.pass_s(61.0)
        assert end.taken == [f"n-{number}" for number in range(60)]
        assert deliveries.states()["ops"].delivered == 60


async def test_a_receiver_that_cannot_be_connected_to_is_tried_again(clock: VirtualClock, end: Listener) -> None:
    outbox = Kept()
    async with sending(outbox, clock, ops="http://127.0.0.1:1/hook") as deliveries:
        deliveries.put([told(1)])
        await clock.pass_s(10.0)
        assert 3 <= outbox.kept["n-1"].attempts <= 6
        assert str(outbox.kept["n-1"].error).startswith("cannot deliver to ops: ")


async def test_a_400_is_not_tried_again_but_kept_and_shown_and_the_next_is_sent(
    clock: VirtualClock, end: Listener
) -> None:
    outbox = Kept()
    end.answer = lambda uid: (400, {}) if uid == "n-1" else (200, {})
    async with sending(outbox, clock, ops=end.url) as deliveries:
        deliveries.put([told(1), told(2)])
        await clock.pass_s(OUTAGE_S)
        assert [uid for _, uid in end.got] == ["n-1", "n-2"]
        assert outbox.kept["n-1"].status is DeliveryStatus.FAILED
        assert "HTTP 400" in str(outbox.kept["n-1"].error)
        state = deliveries.states()["ops"]
        assert (state.delivered, state.failed, state.pending) == (1, 1, 0)
        assert "HTTP 400" in str(state.last_error)


async def test_a_receiver_that_hangs_keeps_up_neither_another_nor_the_loop(clock: VirtualClock) -> None:
    async with listening(clock) as hanging, listening(clock) as well:
        hanging.open.clear()
        async with sending(Kept(), clock, timeout_s=60.0, dead=hanging.url, ops=well.url) as deliveries:
            deliveries.put([told(number, name) for number in range(50) for name in ("dead", "ops")])
            await hanging.arrived.wait()
            async with asyncio.timeout(PATIENCE_S):
                while len(well.taken) < 50:  # noqa: ASYNC110 - the loop goes round, which is the point
                    await asyncio.sleep(0)
            assert len(hanging.got) == 1
            hanging.open.set()
            await clock.settle()
            assert len(hanging.taken) == 50


async def test_a_receiver_that_never_answers_costs_its_deadline_and_is_tried_again(
    clock: VirtualClock, end: Listener
) -> None:
    outbox = Kept()
    end.open.clear()
    async with sending(outbox, clock, timeout_s=0.05, ops=end.url) as deliveries:
        deliveries.put([told(1)])
        await clock.settle()
        assert outbox.kept["n-1"].error == "cannot deliver to ops: no answer within 0.05 s; it is tried again"
        end.open.set()
        async with asyncio.timeout(PATIENCE_S):  # a busy machine's answer may be as late
            while outbox.kept["n-1"].status is not DeliveryStatus.DELIVERED:
                await clock.pass_s(1.0)


async def test_what_waits_is_bounded_and_what_did_not_fit_is_seen(clock: VirtualClock, end: Listener) -> None:
    outbox = Kept()
    end.answer = lambda _: (503, {}) if clock.s < OUTAGE_S else (200, {})
    async with sending(outbox, clock, max_pending=10, ops=end.url) as deliveries:
        for number in range(100):
            deliveries.put([told(number, group=f"g{number % 5}")])
        await clock.pass_s(OUTAGE_S)
        assert deliveries.states()["ops"].pending <= 10
        await clock.pass_s(61.0)
        state = deliveries.states()["ops"]
        assert state.delivered + state.superseded + state.failed == 100
        assert state.delivered <= 11
        assert state.failed == 0
        assert end.taken == sorted(end.taken, key=lambda uid: int(uid.removeprefix("n-")))
        failed = [one for one in outbox.kept.values() if one.status is DeliveryStatus.FAILED]
        assert len(failed) == state.superseded
        assert all("of the same group tells it" in str(one.error) for one in failed)
