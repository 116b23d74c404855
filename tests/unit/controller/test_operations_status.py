"""Status: the present in one picture, and what is wrong with its remedy."""

from __future__ import annotations

import pytest

from controller.operations.application import Operations
from domain.knobs import MAX_NUM_SEQS
from domain.view import SIGNALS
from tests.loop_rig import GROWS, Rig, ticks
from tests.operations_rig import ada, operations
from tests.writers import locked, until_failing, written


@pytest.fixture
async def desk(rig: Rig) -> Operations:
    made = operations(rig)
    await made.restore()
    return made


async def test_before_the_first_tick_nothing_is_claimed(desk: Operations) -> None:
    status = desk.status()
    assert (status.at, status.engine.answers, status.ticks.fresh, status.signals) == (None, False, False, {})
    assert status.problems == ()


async def test_a_healthy_engine_has_no_problem_and_all_is_told(rig: Rig, desk: Operations) -> None:
    await ticks(rig, GROWS)
    status = desk.status()
    assert status.problems == ()
    assert (status.engine.boot_id, status.engine.vllm_version, status.engine.held_by) == ("boot-a", "0.32.0", None)
    assert (status.engine.cores[0].running, status.engine.cores[0].waiting) == (8, 30)
    assert status.ticks.fresh
    assert status.signals.keys() == SIGNALS.keys()
    assert (status.history.where, status.history.problem) == (str(rig.path), None)
    assert {one.name for one in status.sources} >= {"metrics", "runtime"}
    assert desk.signals.now().at == status.at


async def test_a_dead_engine_is_told_with_where_it_was_looked_for_and_the_remedy(rig: Rig, desk: Operations) -> None:
    await ticks(rig, 1)
    await rig.engine.server.close()
    await ticks(rig, 1)
    status = desk.status()
    assert not status.engine.answers
    engine = next(one for one in status.problems if one.what == "engine")
    assert f"cannot reach vLLM at {rig.loop.settings.engine.url}" in engine.reason
    assert engine.remedy.startswith("start vLLM with the governor's plugin at")


async def test_a_history_that_cannot_be_written_is_told_with_the_remedy_for_its_cause(
    rig: Rig, desk: Operations
) -> None:
    await ticks(rig, 1)
    await written(rig.writer)
    with locked(rig.path):
        await desk.knobs.set(ada(), {MAX_NUM_SEQS: 24})
        await until_failing(rig.writer)
        await ticks(rig, 1)
        problems = {one.what: one for one in desk.problems()}
    assert "database is locked" in problems["history"].reason
    assert problems["history"].remedy.startswith("end the process that holds the lock")
    assert "a restart of the daemon would not know of them" in problems["overrides"].reason


async def test_a_loop_that_stands_still_is_told(rig: Rig, desk: Operations) -> None:
    await ticks(rig, 2)
    rig.clock.s += 3600
    status = desk.status()
    assert not status.ticks.fresh
    assert status.problems[0].what == "loop"
    assert "no tick has succeeded since 1970-01-01" in status.problems[0].reason


async def test_parts_of_the_plugin_that_switched_themselves_off_are_told(rig: Rig, desk: Operations) -> None:
    rig.engine.degraded = [{"part": "window", "reason": "it failed at a step"}]
    await ticks(rig, 1)
    (problem,) = desk.problems()
    assert (problem.what, problem.reason) == ("plugin", "window: it failed at a step")
