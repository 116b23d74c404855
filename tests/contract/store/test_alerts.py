"""Incidents, outbox and silences: one law for every database, and for daemons that share one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from domain.incident import Delivery, DeliveryStatus, Incident, IncidentState, Notification
from domain.silence import Matcher, Silence
from store.history import History
from tests.contract.conftest import Opened
from tests.contract.store.samples import AT
from tests.told import incident

ENDS = AT + timedelta(minutes=5)
FIRES = incident("kv_cache", starts_at=AT, labels={"什么": 'a "b" \\ \n c'}, annotations={"summary": "满了"})
OVER = replace(FIRES, state=IncidentState.RESOLVED, ends_at=ENDS, updated_at=ENDS, value=None)
SILENCE = Silence((Matcher("什么", "a.*", is_regex=True, is_equal=False),), AT, ENDS, "me", "因为")


def told(number: int, *incidents: Incident, node: str = "gpu1") -> Notification:
    return Notification(
        f"{node}-{number}", "ops", '{}:{什么="a"}', {"什么": "a"}, incidents or (FIRES,), AT, truncated=number
    )


async def test_incidents_notifications_and_the_state_come_back_as_they_were(history: History) -> None:
    await history.alerts.save(AT, [FIRES], [told(1), told(2, OVER, FIRES)], {"groups": [1, None, "组"]})
    assert await history.alerts.firing() == [FIRES]
    assert await history.alerts.due() == [Delivery(told(1)), Delivery(told(2, OVER, FIRES))]
    assert await history.alerts.state() == {"groups": [1, None, "组"]}
    await history.alerts.save(ENDS, [OVER])
    assert await history.alerts.firing() == []
    assert await history.alerts.incidents() == [OVER]
    assert await history.alerts.state() == {"groups": [1, None, "组"]}


async def test_all_may_be_written_again(history: History) -> None:
    many = [told(number) for number in range(50)]
    for _ in range(2):
        await history.alerts.save(AT, [FIRES, OVER, FIRES], many, {"sequence": 1})
    assert await history.alerts.incidents() == [OVER]
    assert [one.notification for one in await history.alerts.due()] == many


async def test_marks_come_back_and_what_is_over_waits_no_longer(history: History) -> None:
    await history.alerts.save(AT, (), [told(number) for number in range(3)])
    retried = Delivery(told(0), attempts=2, not_before=ENDS, error="cannot deliver to ops: 忙")
    delivered = Delivery(told(1), DeliveryStatus.DELIVERED, 1, delivered_at=ENDS)
    unknown = Delivery(told(3), DeliveryStatus.FAILED, 1, error="HTTP 400")
    await history.alerts.mark([retried, delivered, unknown])
    await history.alerts.mark([Delivery(told(1))])
    assert await history.alerts.due() == [retried, Delivery(told(2))]
    assert await history.alerts.deliveries(limit=3) == [delivered, Delivery(told(2)), unknown]


async def test_a_silence_is_put_once_and_ended_once(history: History) -> None:
    number = await history.alerts.put_silence(SILENCE)
    assert await history.alerts.put_silence(SILENCE) == number
    assert await history.alerts.silences(AT) == [replace(SILENCE, id=number)]
    assert await history.alerts.end_silence(number, AT + timedelta(minutes=1))
    assert not await history.alerts.end_silence(number, AT + timedelta(minutes=2))
    assert await history.alerts.silences(AT + timedelta(minutes=1)) == []


async def test_each_node_has_alerts_of_its_own(opened: Opened) -> None:
    one, other = await opened("gpu1"), await opened("gpu2")
    await one.alerts.save(AT, [FIRES], [told(1)], {"sequence": 1})
    await other.alerts.save(AT, [FIRES], [told(1, node="gpu2")], {"sequence": 2})
    silence = await one.alerts.put_silence(SILENCE)
    assert [each.notification.uid for each in await one.alerts.due()] == ["gpu1-1"]
    assert [each.notification.uid for each in await other.alerts.due()] == ["gpu2-1"]
    assert await other.alerts.silences(AT) == []
    assert not await other.alerts.end_silence(silence, AT)
    assert await one.alerts.state() == {"sequence": 1}
    assert len(await one.alerts.incidents()) == 2
    assert len(await one.alerts.incidents(node="gpu2")) == 1
