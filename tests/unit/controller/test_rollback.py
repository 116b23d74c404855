"""The rollback: one call in, one call out, through restarts of the daemon and of the engine."""

from __future__ import annotations

from typing import Any

import pytest

from controller.settings import EngineSettings, Settings
from domain.decision import Mode, Reason, Status
from domain.knobs import CONNECTION_CLOSE, MAX_NUM_BATCHED_TOKENS, MAX_NUM_QUEUED_REQS, MAX_NUM_SEQS
from store.writes import Keep
from tests.loop_rig import Rig, ticks
from tests.writers import locked, until_failing, written

ROLLED_BACK = {MAX_NUM_SEQS: 8, MAX_NUM_BATCHED_TOKENS: 4096, MAX_NUM_QUEUED_REQS: 100, CONNECTION_CLOSE: True}
BEFORE = {MAX_NUM_SEQS: 32, MAX_NUM_BATCHED_TOKENS: 8192, MAX_NUM_QUEUED_REQS: None, CONNECTION_CLOSE: False}
STARTUP = BEFORE | {MAX_NUM_SEQS: 64}


@pytest.fixture
async def whole(rig: Rig) -> Rig:
    """An engine with all four knobs, at a cap of 32 with nothing waiting, met by its daemon."""
    rig.engine.carry(MAX_NUM_BATCHED_TOKENS, 8192, 64, 8192)
    rig.engine.carry(MAX_NUM_QUEUED_REQS, None, 0, 1_000_000)
    rig.engine.carry(CONNECTION_CLOSE, False, False, True)
    rig.engine.cap, rig.engine.running, rig.engine.waiting = 32, 4, 0
    quiet = {"token_budget": {"enabled": False}, "load_shed": {"enabled": False}}
    rig.build(policies=quiet)
    await ticks(rig, 2)
    return rig


def in_force(rig: Rig) -> dict[str, Any]:
    return {MAX_NUM_SEQS: rig.engine.cap} | {name: knob["value"] for name, knob in rig.engine.knobs.items()}


def mode(rig: Rig) -> Mode:
    return rig.loop.observed.mode


async def test_one_call_sets_all_four_reads_them_back_and_names_them_as_the_fallback(whole: Rig) -> None:
    await whole.loop.roll_back()
    assert in_force(whole) == ROLLED_BACK
    assert whole.engine.fallback == ROLLED_BACK
    assert mode(whole) is Mode.STATIC
    for knob, value in ROLLED_BACK.items():
        row = (await whole.decisions(knob))[-1].decision
        assert (row.status, row.observed, row.reason) == (Status.APPLIED, value, Reason.ROLLBACK_VALUES)


async def test_when_the_daemon_dies_the_engine_keeps_the_rollbacks_values(whole: Rig) -> None:
    await whole.loop.roll_back()
    whole.engine.die_of_its_daemon()
    assert in_force(whole) == ROLLED_BACK


async def test_one_call_undoes_it_and_the_mode_from_before_goes_on(whole: Rig) -> None:
    await whole.loop.roll_back()
    assert await whole.loop.undo()
    assert in_force(whole) == BEFORE
    assert mode(whole) is Mode.AUTO
    assert whole.loop.rollback[0] is None
    await ticks(whole, 1)
    assert whole.engine.fallback == {}


@pytest.mark.parametrize("mode", ["observe", "manual", "paused"])
async def test_an_undo_restores_the_values_in_a_mode_that_changes_nothing_by_itself(whole: Rig, mode: str) -> None:
    whole.build(mode=mode)
    await ticks(whole, 1)
    await whole.loop.roll_back()
    assert in_force(whole) == ROLLED_BACK
    await whole.loop.undo()
    assert in_force(whole) == BEFORE
    assert whole.loop.observed.mode == mode


async def test_a_budget_that_is_smaller_already_stays(whole: Rig) -> None:
    whole.engine.knobs[MAX_NUM_BATCHED_TOKENS]["value"] = 2048
    await ticks(whole, 1)
    await whole.loop.roll_back()
    assert whole.engine.value(MAX_NUM_BATCHED_TOKENS) == 2048
    assert whole.engine.fallback[MAX_NUM_BATCHED_TOKENS] == 2048


async def test_a_restarted_daemon_goes_on_with_the_rollback_and_can_undo_it(whole: Rig) -> None:
    await whole.loop.roll_back()
    whole.engine.cap = 64
    whole.build(mode="auto")
    await whole.loop.restore()
    await ticks(whole, 2)
    assert in_force(whole) == ROLLED_BACK
    assert mode(whole) is Mode.STATIC
    await whole.loop.undo()
    assert in_force(whole) == BEFORE
    whole.build(mode="auto")
    await whole.loop.restore()
    assert whole.loop.rollback[0] is None


async def test_a_daemon_whose_history_answers_late_still_goes_on_with_the_rollback(
    whole: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    await whole.loop.roll_back()
    with locked(whole.path):
        await until_failing_at(whole)
        whole.build(mode="auto")
        await whole.loop.restore()
        await ticks(whole, 3)
        assert sum("cannot tell yet" in r.message for r in caplog.records) == 1
    await written(whole.writer)
    await ticks(whole, 2)
    assert in_force(whole) == ROLLED_BACK
    assert whole.engine.fallback == ROLLED_BACK
    assert mode(whole) is Mode.STATIC


async def until_failing_at(rig: Rig) -> None:
    """Something is handed over that cannot be written."""
    await ticks(rig, 1)
    await until_failing(rig.writer)


async def test_an_engine_that_restarts_is_rolled_back_again_and_an_undo_gives_it_its_start_up_values(
    whole: Rig,
) -> None:
    await whole.loop.roll_back()
    whole.engine.restart()
    await ticks(whole, 3)
    assert in_force(whole) == ROLLED_BACK
    await whole.loop.undo()
    assert in_force(whole) == STARTUP


async def test_a_second_call_changes_nothing_and_forgets_nothing(whole: Rig) -> None:
    await whole.loop.roll_back()
    first = whole.loop.rollback[0]
    await whole.loop.roll_back()
    assert whole.loop.rollback[0] == first
    await whole.loop.undo()
    assert in_force(whole) == BEFORE


async def test_without_a_rollback_there_is_nothing_to_undo(whole: Rig) -> None:
    assert not await whole.loop.undo()
    assert in_force(whole) == BEFORE


async def test_a_reload_does_not_end_a_rollback(whole: Rig) -> None:
    await whole.loop.roll_back()
    await whole.loop.reconfigure(Settings(engine=EngineSettings(url=whole.engine.url)))
    whole.engine.cap = 64
    await ticks(whole, 2)
    assert in_force(whole) == ROLLED_BACK
    assert whole.engine.fallback == ROLLED_BACK


async def test_an_engine_that_is_away_is_rolled_back_when_it_answers(whole: Rig) -> None:
    whole.engine.status = 503
    await whole.loop.roll_back()
    assert in_force(whole) == BEFORE
    whole.engine.status = None
    await ticks(whole, 1)
    assert in_force(whole) == ROLLED_BACK


async def test_an_undo_waits_for_an_engine_that_is_away_however_long(whole: Rig) -> None:
    await whole.loop.roll_back()
    whole.engine.status = 503
    await whole.loop.undo()
    await ticks(whole, 15)
    assert mode(whole) is Mode.STATIC
    whole.engine.status = None
    await ticks(whole, 2)
    assert in_force(whole) == BEFORE
    assert mode(whole) is Mode.AUTO


async def test_an_undo_that_the_engine_ignores_gives_up_in_the_end(whole: Rig) -> None:
    await whole.loop.roll_back()
    whole.engine.ignore_patches = True
    await whole.loop.undo()
    await ticks(whole, 7)
    assert mode(whole) is Mode.STATIC
    await ticks(whole, 3)
    assert mode(whole) is Mode.AUTO


async def test_an_engine_whose_floor_is_over_the_rollbacks_budget_keeps_its_daemon(whole: Rig) -> None:
    whole.engine.knobs[MAX_NUM_BATCHED_TOKENS]["min"] = 6000
    await whole.loop.roll_back()
    await ticks(whole, 2)
    assert in_force(whole) == ROLLED_BACK | {MAX_NUM_BATCHED_TOKENS: 6000}
    assert whole.engine.fallback == ROLLED_BACK | {MAX_NUM_BATCHED_TOKENS: 6000}


async def test_the_rest_is_rolled_back_where_the_engine_refuses_one_of_the_values(whole: Rig) -> None:
    whole.engine.refuses = {CONNECTION_CLOSE}
    await whole.loop.roll_back()
    assert in_force(whole) == ROLLED_BACK | {CONNECTION_CLOSE: False}


async def test_an_engine_without_some_of_the_knobs_is_rolled_back_in_the_others(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.engine.cap, rig.engine.waiting = 32, 0
    await ticks(rig, 1)
    await rig.loop.roll_back()
    assert rig.engine.cap == 8
    assert rig.engine.fallback == {MAX_NUM_SEQS: 8}
    assert "rollback: this engine cannot carry connection_close" in [r.message for r in caplog.records]


async def test_a_rollback_that_the_history_cannot_keep_says_so_and_is_kept_later(whole: Rig) -> None:
    with locked(whole.path):
        await whole.loop.roll_back()
        assert in_force(whole) == ROLLED_BACK
        assert whole.loop.rollback[1] is False
    await written(whole.writer)
    assert whole.loop.rollback[1] is True
    assert await whole.history.kept.get("rollback") is not None


async def test_a_kept_rollback_that_cannot_be_understood_stops_nothing(
    whole: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    await whole.loop.roll_back()
    await whole.writer.commit(Keep("rollback", whole.loop.clock().wall, {"values": 3}), 10)
    whole.build()
    await whole.loop.restore()
    assert whole.loop.rollback[0] is None
    assert any("cannot tell whether one was in force" in r.message for r in caplog.records)


async def test_the_numbers_of_the_rollback_are_settings(whole: Rig) -> None:
    whole.build(
        policies={"static": {"fixed_batch_size": 16, "rollback_tokens": 2048, "rollback_connection_close": False}}
    )
    await ticks(whole, 1)
    await whole.loop.roll_back()
    assert in_force(whole) == BEFORE | {MAX_NUM_SEQS: 16, MAX_NUM_BATCHED_TOKENS: 2048, MAX_NUM_QUEUED_REQS: 100}
