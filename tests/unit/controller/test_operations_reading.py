"""What was: pages of decisions, one explained, outcomes, series, costs, the audit, a replay asked of the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

import pytest

from controller.operations.application import Operations
from controller.operations.refusal import Kind, Refused
from domain.decision import Status
from domain.knobs import MAX_NUM_QUEUED_REQS, MAX_NUM_SEQS, NO_LIMIT
from store.history import StoredDecision
from tests.loop_rig import Rig, ticks
from tests.operations_rig import ada, operations
from tests.writers import written


@pytest.fixture
async def desk(rig: Rig) -> Operations:
    """Some ticks of an engine that a policy and an operator changed."""
    rig.engine.carry(MAX_NUM_QUEUED_REQS, None, 0, 1_000_000)
    rig.build()
    made = operations(rig)
    await ticks(rig, 4)
    for value in (24, 40, 16):
        await made.knobs.set(ada(), {MAX_NUM_SEQS: value})
    await ticks(rig, 2)
    await rig.loop.close()
    await written(rig.writer)
    return made


async def refused(call: Awaitable[Any]) -> Refused:
    with pytest.raises(Refused) as caught:
        await call
    return caught.value


async def test_pages_go_from_the_newest_back_and_miss_none(desk: Operations) -> None:
    every = (await desk.decisions.page(limit=500)).rows
    assert [one.id for one in every] == sorted((one.id for one in every), reverse=True)
    found, before_id = list[StoredDecision](), None
    while True:
        page = await desk.decisions.page(limit=2, before_id=before_id)
        found += page.rows
        before_id = page.older
        if before_id is None:
            break
    assert tuple(found) == every


@pytest.mark.parametrize(
    ("which", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 501}, "limit"),
        ({"before_id": -1}, "before_id"),
        ({"after_id": 2**70}, "after_id"),
    ],
)
async def test_a_page_that_cannot_be_is_refused(desk: Operations, which: dict[str, Any], field: str) -> None:
    assert (await refused(desk.decisions.page(**which))).field == field


async def test_one_is_explained_with_its_run_and_the_changes_around_it(desk: Operations) -> None:
    rows = (await desk.decisions.page(limit=500, knob=MAX_NUM_SEQS, status=Status.APPLIED)).rows
    last, middle, first = rows[:3]
    found = await desk.decisions.explain(middle.id)
    assert found.run is not None
    assert found.run.boot_id == "boot-a"
    assert found.before is not None
    assert found.after is not None
    assert (found.before.id, found.after.id) == (first.id, last.id)
    assert await desk.decisions.by_uid(middle.decision.uid or "") == found


async def test_one_that_there_is_not_is_unknown(desk: Operations) -> None:
    for call in (desk.decisions.explain(10**6), desk.decisions.explain(2**70), desk.decisions.by_uid("none")):
        assert (await refused(call)).kind is Kind.UNKNOWN


async def test_outcomes_are_counted_by_policy_and_knob(rig: Rig, desk: Operations) -> None:
    now = rig.clock().wall
    found = await desk.decisions.outcomes(now - timedelta(hours=1), now + timedelta(seconds=1))
    by_policy = {(one.policy, one.knob): one for one in found.tallies}
    tally = by_policy["operator", MAX_NUM_SEQS]
    assert sum(tally.verdicts.values()) + tally.waiting == 3


async def test_series_have_columns_of_one_length_and_tell_no_limit_from_not_known(rig: Rig, desk: Operations) -> None:
    now = rig.clock().wall
    found = await desk.readings.series(now - timedelta(minutes=5), now + timedelta(seconds=1), ["running", "waiting"])
    assert len(found.at) == len(found.seconds) > 0
    assert {len(column) for column in (*found.means.values(), *found.highs.values(), *found.knobs.values())} == {
        len(found.at)
    }
    assert found.knobs[MAX_NUM_QUEUED_REQS] == (NO_LIMIT,) * len(found.at)
    assert found.knobs[MAX_NUM_SEQS][-1] == 16
    few = await desk.readings.series(now - timedelta(minutes=5), now + timedelta(seconds=1), points=2)
    assert len(few.at) <= 2


async def test_a_question_that_cannot_be_answered_names_its_part(rig: Rig, desk: Operations) -> None:
    now = rig.clock().wall
    earlier = now - timedelta(hours=1)
    for call, field in (
        (desk.readings.series(now, earlier), "since"),
        (desk.readings.series(earlier.replace(tzinfo=None), now), "since"),
        (desk.readings.series(earlier, now, ["runing"]), "signals"),
        (desk.readings.series(earlier, now, points=0), "points"),
        (desk.cost.period(now, now), "since"),
        (desk.cost.by_setting(earlier, now, ["max_seqs"]), "by"),
        (desk.decisions.actions(limit=0), "limit"),
    ):
        assert (await refused(call)).field == field


async def test_costs_are_those_of_the_ledger_at_the_configured_prices(rig: Rig, desk: Operations) -> None:
    now = rig.clock().wall
    column = await desk.cost.period(now - timedelta(hours=1), now + timedelta(seconds=1))
    assert column.setting is None
    assert column.figures.measured_s > 0
    assert desk.cost.tariff().currency == "CNY"
    settings = await desk.cost.by_setting(now - timedelta(hours=1), now + timedelta(seconds=1), [MAX_NUM_SEQS])
    assert len(settings) == 3


async def test_the_audit_is_read_oldest_first(desk: Operations) -> None:
    assert [(one.actor, one.action) for one in await desk.decisions.actions(limit=2)] == [("ada", "knobs.set")] * 2


async def test_a_replay_is_done_by_another_process_one_at_a_time(rig: Rig, desk: Operations) -> None:
    first = asyncio.ensure_future(desk.replays.run())
    await asyncio.sleep(0)
    assert desk.replays.running
    assert (await refused(desk.replays.run())).kind is Kind.CONFLICT
    found = await first
    assert found["not_reproduced"] == []
    assert found["reproduced"] > 0
    assert not desk.replays.running
    tried = await desk.replays.run(tables={"policies": {"batch_resize": {"enabled": False}}})
    assert tried["knobs"]
    error = await refused(desk.replays.run(tables={"policies": {"batch_resize": {"flor": 1}}}))
    assert (error.kind, error.field) == (Kind.INVALID, "tables")
    later = rig.clock().wall + timedelta(days=1)
    assert (await refused(desk.replays.run(since=later))).kind is Kind.CONFLICT
