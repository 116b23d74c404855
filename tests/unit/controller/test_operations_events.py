"""Events: numbered, resumed, never in the publisher's way; what a tick tells."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from controller.operations.application import Operations
from controller.operations.events import Event, EventKind, Events
from domain.decision import Mode
from domain.knobs import MAX_NUM_SEQS
from tests.listening import told
from tests.loop_rig import GROWS, Rig, ticks
from tests.operations_rig import ada, operations


async def take(listener: AsyncIterator[Event], count: int) -> list[Event]:
    return [await anext(listener) for _ in range(count)]


async def test_a_listener_gets_what_comes_from_then_on_in_order() -> None:
    events = Events()
    events.publish(EventKind.TICK, {"n": 0})
    listener = told(events)
    waiting = asyncio.ensure_future(take(listener, 2))
    await asyncio.sleep(0)
    events.publish(EventKind.TICK, {"n": 1})
    events.publish(EventKind.MODE, {"n": 2})
    assert [(one.kind, one.data["n"]) for one in await waiting] == [(EventKind.TICK, 1), (EventKind.MODE, 2)]


async def test_a_listener_resumes_after_what_it_had_last() -> None:
    events = Events()
    made = [events.publish(EventKind.TICK, {"n": number}) for number in range(5)]
    got = await take(told(events, made[2].id), 2)
    assert got == made[3:]


@pytest.mark.parametrize("last_id", ["deadbeef-3", "nonsense", "", "x-9999999999999999999", "\u0663"])
async def test_one_of_another_life_is_told_of_the_gap_and_gets_all_that_is_kept(last_id: str) -> None:
    events = Events(kept=3)
    made = [events.publish(EventKind.TICK, {"n": number}) for number in range(5)]
    first, *rest = await take(told(events, last_id), 4)
    assert first.kind is EventKind.GAP
    assert rest == made[2:]


async def test_one_that_missed_more_than_is_kept_is_told_so() -> None:
    events = Events(kept=3)
    made = [events.publish(EventKind.TICK, {"n": number}) for number in range(9)]
    first, second = await take(told(events, made[1].id), 2)
    assert (first.kind, second) == (EventKind.GAP, made[6])


async def test_a_listener_that_is_too_slow_is_cut_off_and_nobody_else() -> None:
    events = Events(kept=3)
    slow, quick = told(events), told(events)
    waiting = asyncio.gather(take(slow, 1), take(quick, 1))
    await asyncio.sleep(0)
    events.publish(EventKind.TICK, {"n": 0})
    await waiting
    for number in range(1, 9):
        events.publish(EventKind.TICK, {"n": number})
        assert (await anext(quick)).data["n"] == number
    assert [one async for one in slow] == []


async def test_publishing_waits_for_nobody_and_costs_no_more_with_listeners() -> None:
    events = Events()
    listeners = [told(events) for _ in range(200)]
    waiting = [asyncio.ensure_future(anext(one)) for one in listeners]
    await asyncio.sleep(0)
    made = events.publish(EventKind.TICK, {"n": 1})
    assert not any(one.done() for one in waiting)
    assert [await one for one in waiting] == [made] * 200
    assert events.listeners == 200


async def test_what_else_is_asked_gets_its_turn_between_the_listeners() -> None:
    events = Events()
    waiting = [asyncio.ensure_future(anext(told(events))) for _ in range(200)]
    await asyncio.sleep(0)
    events.publish(EventKind.TICK, {"n": 1})
    for _ in range(3):  # a request takes so many turns
        await asyncio.sleep(0)
    woken = sum(one.done() for one in waiting)
    await asyncio.gather(*waiting)
    assert 0 < woken <= 100


async def test_a_listener_that_has_gone_holds_up_none_of_the_others() -> None:
    events = Events()
    waiting = [asyncio.ensure_future(anext(told(events))) for _ in range(60)]
    await asyncio.sleep(0)
    for one in waiting[::2]:
        one.cancel()
    made = events.publish(EventKind.TICK, {"n": 1})
    assert await asyncio.gather(*waiting[1::2]) == [made] * 30
    assert events.listeners == 30


async def test_every_subscription_ends_when_the_daemon_stops() -> None:
    events = Events()
    waiting = asyncio.ensure_future(anext(told(events), None))
    await asyncio.sleep(0)
    events.close()
    assert await waiting is None
    assert events.listeners == 0
    assert [one async for one in told(events)] == []


async def test_a_resumed_listener_of_an_empty_ring_waits() -> None:
    events = Events()
    waiting = asyncio.ensure_future(anext(told(events, events.last_id)))
    await asyncio.sleep(0)
    made = events.publish(EventKind.TICK, {})
    assert await waiting == made


@pytest.fixture
async def desk(rig: Rig) -> Operations:
    return operations(rig)


def kept(desk: Operations, kind: EventKind) -> list[Event]:
    return [one for one in desk.events._ring if one.kind is kind]


async def test_each_tick_tells_a_summary_and_each_decision_that_is_news(rig: Rig, desk: Operations) -> None:
    await ticks(rig, GROWS + 1)
    told = kept(desk, EventKind.TICK)
    assert [one.data["number"] for one in told] == list(range(1, GROWS + 2))
    assert told[-1].data["signals"]["running"] == rig.engine.running
    assert told[0].data["knobs"] == {MAX_NUM_SEQS: 8}
    decisions = {one.data["uid"]: one.data for one in kept(desk, EventKind.DECISION)}
    rows = {row.decision.uid: row.decision for row in await rig.decisions()}
    assert rows.keys() <= decisions.keys()
    assert all(decisions[uid]["sentence"] == row.sentence for uid, row in rows.items())


async def test_all_that_is_told_is_json(rig: Rig, desk: Operations) -> None:
    rig.engine.carry("max_num_queued_reqs", None, 0, 1_000_000)
    await ticks(rig, 3)
    await desk.rollback.enter(ada())
    await desk.rollback.undo(ada())
    for event in desk.events._ring:
        assert json.loads(event.text) == event.data


async def test_changes_of_mode_override_rollback_and_engine_are_told_once_each(rig: Rig, desk: Operations) -> None:
    await ticks(rig, 1)
    await desk.mode.set(ada(), Mode.MANUAL)
    await desk.knobs.set(ada(), {MAX_NUM_SEQS: 24})
    await ticks(rig, 2)
    await desk.rollback.enter(ada())
    rig.engine.restart()
    await ticks(rig, 3)
    modes = [one.data["in_force"] for one in kept(desk, EventKind.MODE)]
    assert modes == ["manual", "static"]
    assert [len(one.data["overrides"]) for one in kept(desk, EventKind.OVERRIDE)] == [1]
    assert [one.data["since"] is not None for one in kept(desk, EventKind.ROLLBACK)] == [True]
    assert [one.data["boot_id"] for one in kept(desk, EventKind.ENGINE)][-1] == "boot-b"
    actions = [one.data["action"] for one in kept(desk, EventKind.ACTION)]
    assert actions == ["mode.set", "knobs.set", "rollback"]


async def test_a_source_that_falls_silent_and_comes_back_is_told_with_its_reason(rig: Rig, desk: Operations) -> None:
    await ticks(rig, 1)
    rig.engine.metrics_status = 500
    await ticks(rig, 2)
    rig.engine.metrics_status = None
    await ticks(rig, 1)
    told = [one.data["problems"] for one in kept(desk, EventKind.SOURCE)]
    assert ["metrics" in one for one in told] == [True, False]
