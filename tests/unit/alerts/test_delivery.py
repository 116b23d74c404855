"""The senders: order, restarts, reloads, what is wrong with a message; over real HTTP, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from alerts.delivery import Deliveries
from alerts.receivers import Delivered, Retry
from alerts.receivers.webhook import Webhook
from domain.errors import SettingsError
from domain.incident import Delivery, DeliveryStatus, Notification
from store.outbox import WriterOutbox
from store.writes import SaveAlerts
from tests.listener import Kept, Listener, listening, settings, started, told
from tests.told import NOON
from tests.virtual_time import VirtualClock
from tests.writers import locked, until_failing, writing, written


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def end(clock: VirtualClock) -> AsyncIterator[Listener]:
    async with listening(clock) as listener:
        yield listener


def uids(numbers: range) -> list[str]:
    return [f"n-{number}" for number in numbers]


async def test_each_is_kept_as_delivered_before_the_next_is_sent(clock: VirtualClock, end: Listener) -> None:
    class Watching(Kept):
        async def mark(self, delivery: Delivery) -> None:
            assert [uid for _, uid in end.got] == [*self.marked, delivery.notification.uid]
            await super().mark(delivery)

    outbox = Watching()
    async with started(Deliveries(settings(ops={"url": end.url}), outbox, clock)) as deliveries:
        deliveries.put([told(number) for number in range(20)])
        await clock.settle()
    assert end.taken == outbox.marked == uids(range(20))
    assert outbox.kept["n-3"].delivered_at == NOON


async def test_nothing_is_sent_before_it_is_in_the_outbox(clock: VirtualClock, end: Listener) -> None:
    stored = asyncio.Event()
    async with started(Deliveries(settings(ops={"url": end.url}), Kept(), clock)) as deliveries:
        deliveries.put([told(1)], stored.wait())
        for _ in range(100):
            await asyncio.sleep(0)
        assert end.got == []
        stored.set()
        await clock.settle()
        assert end.taken == ["n-1"]


async def test_what_a_run_before_told_and_had_no_time_to_remember_is_not_told_again(
    tmp_path: Path, clock: VirtualClock, end: Listener
) -> None:
    async with writing(tmp_path / "h.db", "gpu1") as writer:
        outbox = WriterOutbox(writer, 10.0)
        writer.put(SaveAlerts(NOON, (), [told(1), told(2)]))
        await outbox.mark(Delivery(told(1), DeliveryStatus.DELIVERED, 1, delivered_at=NOON))
        save = SaveAlerts(NOON, (), [told(1), told(2), told(3)])
        async with started(Deliveries(settings(ops={"url": end.url}), outbox, clock)) as deliveries:
            deliveries.put(save.notifications, writer.settled(writer.put(save), 10.0), save.over)
            await clock.settle()
        assert end.taken == ["n-2", "n-3"]


async def test_a_history_that_cannot_be_written_keeps_up_no_notification(
    tmp_path: Path, clock: VirtualClock, end: Listener
) -> None:
    path = tmp_path / "h.db"
    async with writing(path, "gpu1") as writer:
        with locked(path):
            broken = writer.put(SaveAlerts(NOON, state={}))
            await until_failing(writer)
            outbox = WriterOutbox(writer, 1.0)
            async with started(Deliveries(settings(ops={"url": end.url}), outbox, clock)) as deliveries:
                many = [told(number) for number in range(5)]
                receipt = writer.put(SaveAlerts(NOON, (), many))
                deliveries.put(many, writer.settled(receipt, 1.0))
                await clock.settle()
                assert end.taken == uids(range(5))
                assert not broken.written
        await written(writer)
        status = await writer.run(lambda history: history.alerts.deliveries(), 5.0)
    assert [(one.notification.uid, one.status) for one in status] == [
        (uid, DeliveryStatus.DELIVERED) for uid in uids(range(5))
    ]


async def test_what_a_run_before_left_behind_comes_first_and_not_before_its_time(
    clock: VirtualClock, end: Listener
) -> None:
    deliveries = Deliveries(settings(ops={"url": end.url}), Kept(), clock)
    left = Delivery(told(1), attempts=3, not_before=NOON + timedelta(seconds=30), error="HTTP 429")
    deliveries.restore([left, Delivery(told(2))])
    async with started(deliveries):
        deliveries.put([told(2), told(3)])
        await clock.pass_s(29.0)
        assert end.got == []
        await clock.pass_s(1.0)
        assert end.got == [(30.0, "n-1"), (30.0, "n-2"), (30.0, "n-3")]


@pytest.mark.parametrize("group", ["g", "another"])
async def test_what_went_for_lack_of_room_while_it_waited_for_its_time_is_not_sent(
    clock: VirtualClock, end: Listener, group: str
) -> None:
    """Of the same group the newer one tells it; of another it is kept as given up."""
    deliveries = Deliveries(settings(ops={"url": end.url, "max_pending": 1}), Kept(), clock)
    deliveries.restore([Delivery(told(1), not_before=NOON + timedelta(seconds=30))])
    async with started(deliveries):
        await clock.pass_s(10.0)
        deliveries.put([told(2, group=group)])
        await clock.pass_s(60.0)
    assert [uid for _, uid in end.got] == ["n-2"]


async def test_a_clock_that_was_set_back_makes_nobody_wait_for_years(clock: VirtualClock, end: Listener) -> None:
    deliveries = Deliveries(settings(ops={"url": end.url}), Kept(), clock)
    deliveries.restore([Delivery(told(1), not_before=NOON + timedelta(days=400))])
    async with started(deliveries):
        await clock.pass_s(3600.0)
        assert end.taken == ["n-1"]


async def test_a_secret_that_cannot_be_read_is_waited_for(tmp_path: Path, clock: VirtualClock, end: Listener) -> None:
    outbox, address = Kept(), tmp_path / "address"
    async with started(Deliveries(settings(ops={"url_file": str(address)}), outbox, clock)) as deliveries:
        deliveries.put([told(1)])
        await clock.pass_s(5.0)
        assert outbox.kept["n-1"].status is DeliveryStatus.PENDING
        address.write_text(end.url)
        await clock.pass_s(60.0)
        assert end.taken == ["n-1"]


async def test_a_message_that_cannot_be_made_is_given_up_and_the_next_is_sent(
    clock: VirtualClock, end: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Webhook.request

    def request(self: Webhook, notification: Notification, now: datetime) -> Any:
        if notification.uid == "n-1":
            raise ZeroDivisionError("s3cret")
        return make(self, notification, now)

    monkeypatch.setattr(Webhook, "request", request)
    outbox = Kept()
    async with started(Deliveries(settings(ops={"url": end.url}), outbox, clock)) as deliveries:
        deliveries.put([told(1), told(2)])
        await clock.settle()
    assert end.taken == ["n-2"]
    assert outbox.kept["n-1"].error == "cannot deliver to ops: ZeroDivisionError in this program; report it"


async def test_a_message_that_breaks_a_receiver_keeps_up_the_others_for_an_hour_at_most(
    clock: VirtualClock, end: Listener
) -> None:
    outbox = Kept()
    end.answer = lambda uid: (500, {}) if uid == "n-1" else (200, {})
    async with started(Deliveries(settings(ops={"url": end.url}), outbox, clock)) as deliveries:
        deliveries.put([told(number) for number in range(5)])
        await clock.pass_s(3500.0)
        assert end.taken == ["n-0"]
        await clock.pass_s(200.0)
        assert end.taken == ["n-0", "n-2", "n-3", "n-4"]
        assert outbox.kept["n-1"].status is DeliveryStatus.FAILED
        assert str(outbox.kept["n-1"].error).endswith("(no more: others are taken)")


async def test_an_outage_of_hours_gives_nothing_up(clock: VirtualClock, end: Listener) -> None:
    end.answer = lambda _: (503, {}) if clock.s < 10_000 else (200, {})
    async with started(Deliveries(settings(ops={"url": end.url}), Kept(), clock)) as deliveries:
        deliveries.put([told(number) for number in range(5)])
        await clock.pass_s(10_061.0)
        assert end.taken == uids(range(5))


async def test_after_a_reload_what_was_wrong_is_tried_at_once(clock: VirtualClock, end: Listener) -> None:
    async with started(Deliveries(settings(ops={"url": "http://127.0.0.1:1/"}), Kept(), clock)) as deliveries:
        deliveries.put([told(1)])
        await clock.pass_s(300.0)
        deliveries.apply(settings(ops={"url": end.url}))
        await clock.settle()
        assert end.got == [(300.0, "n-1")]


async def test_a_reload_that_changes_another_receiver_cuts_short_no_wait(clock: VirtualClock, end: Listener) -> None:
    end.answer = lambda _: (429, {"Retry-After": "600"})
    ops = {"url": end.url}
    async with started(Deliveries(settings(ops=ops), Kept(), clock)) as deliveries:
        deliveries.put([told(1)])
        await clock.settle()
        deliveries.apply(settings(ops=ops, other={"url": f"{end.url}/other"}))
        clock.parties = 2
        await clock.pass_s(599.0)
        assert len(end.got) == 1
        end.answer = lambda _: (200, {})
        await clock.pass_s(1.0)
    assert len(end.got) == 2


async def test_a_receiver_that_comes_is_told_and_what_waits_for_one_that_goes_is_given_up(
    clock: VirtualClock, end: Listener
) -> None:
    outbox = Kept()
    async with started(Deliveries(settings(old={"url": "http://127.0.0.1:1/"}), outbox, clock)) as deliveries:
        deliveries.put([told(1, "old"), told(2, "old")])
        await clock.pass_s(10.0)
        deliveries.apply(settings(ops={"url": end.url}))
        deliveries.put([told(3), told(4, "old")])
        await clock.settle()
        assert end.taken == ["n-3"]
    assert sorted(outbox.uids(DeliveryStatus.FAILED)) == ["n-1", "n-2", "n-4"]
    assert "there is no such receiver any more" in str(outbox.kept["n-2"].error)


async def test_alertmanager_is_told_again_what_is_true_and_never_between_two_notifications(
    clock: VirtualClock, end: Listener
) -> None:
    true = [told(7)]
    asked: list[float] = []

    def again(_receiver: str) -> Sequence[Notification]:
        asked.append(clock.s)
        return true

    own = {"kind": "alertmanager", "url": end.url, "resend_s": 60.0}
    async with started(Deliveries(settings(am=own), Kept(), clock, again)) as deliveries:
        await clock.pass_s(200.0)
        assert asked == [0.0, 60.0, 120.0, 180.0]
        assert [at for at, _ in end.got] == asked
        end.answer = lambda _: (503, {}) if clock.s < 500.0 else (200, {})
        deliveries.put([told(1, "am")])
        await clock.pass_s(299.0)
        assert asked == [0.0, 60.0, 120.0, 180.0]
        await clock.pass_s(61.0)
        assert len(asked) == 5


async def test_a_trial_says_what_became_of_it_and_touches_no_outbox(clock: VirtualClock, end: Listener) -> None:
    outbox = Kept()
    async with started(Deliveries(settings(ops={"url": end.url}), outbox, clock)) as deliveries:
        assert await deliveries.attempt(told(1)) == Delivered()
        end.answer = lambda _: (503, {})
        assert isinstance(await deliveries.attempt(told(1)), Retry)
        with pytest.raises(KeyError):
            await deliveries.attempt(told(1, "nobody"))
    assert outbox.kept == {}


async def test_at_the_end_an_attempt_is_let_end_and_what_waits_stays_pending(
    clock: VirtualClock, end: Listener
) -> None:
    outbox = Kept()
    end.open.clear()
    deliveries = Deliveries(settings(ops={"url": end.url}), outbox, clock)
    deliveries.start()
    deliveries.put([told(1), told(2)])
    await end.arrived.wait()
    ending = asyncio.create_task(deliveries.stop(30.0))
    await asyncio.sleep(0)
    end.open.set()
    await ending
    assert outbox.marked == ["n-1"]
    assert "n-2" not in outbox.kept


async def test_at_the_end_a_receiver_that_hangs_is_not_waited_for(clock: VirtualClock, end: Listener) -> None:
    outbox = Kept()
    end.open.clear()
    deliveries = Deliveries(settings(ops={"url": end.url, "timeout_s": 60.0}), outbox, clock)
    deliveries.start()
    deliveries.put([told(1)])
    await end.arrived.wait()
    await deliveries.stop(0.0)
    assert outbox.kept == {}


async def test_a_burst_of_ten_thousand_is_bounded_for_a_receiver_that_hangs_and_for_one_that_does_not(
    clock: VirtualClock,
) -> None:
    outbox = Kept()
    async with listening(clock) as hanging, listening(clock) as well:
        hanging.open.clear()
        own = settings(dead={"url": hanging.url, "max_pending": 100}, ops={"url": well.url, "max_pending": 100})
        clock.parties = 1
        async with started(Deliveries(own, outbox, clock)) as deliveries:
            for first in range(0, 10_000, 100):
                for name in ("dead", "ops"):
                    deliveries.put([told(n, name, group=f"g{n}") for n in range(first, first + 100)])
                assert max(state.pending for state in deliveries.states().values()) <= 100
                await asyncio.sleep(0)
            await clock.settle()
            dead, ops = deliveries.states()["dead"], deliveries.states()["ops"]
            assert (dead.pending, dead.failed) == (100, 10_000 - 100)
            assert ops.delivered + ops.failed == 10_000
            assert well.taken[-1] == "n-9999"
            hanging.open.set()


async def test_a_template_that_is_wrong_leaves_the_receivers_as_they_were(tmp_path: Path) -> None:
    deliveries = Deliveries(settings(ops={"url": "http://127.0.0.1:1/"}), Kept())
    chat = {"kind": "slack", "url": "http://127.0.0.1:1/", "template": str(tmp_path / "missing.j2")}
    with pytest.raises(SettingsError, match="cannot use the template"):
        deliveries.apply(settings(chat=chat))
    assert list(deliveries.states()) == ["ops"]
