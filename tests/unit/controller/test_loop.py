"""The loop against an engine that misbehaves. No real time passes: each test calls `tick` itself."""

import logging
import sqlite3
import threading
from collections import Counter
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import Any

import pytest

from controller.settings import EngineSettings, Settings
from controller.slo_settings import MaintenanceSettings
from domain.decision import Mode, Reason, Status
from domain.knobs import MAX_NUM_SEQS
from tests.loop_rig import GROWS, Rig, ticks
from tests.writers import locked, written


async def test_a_change_is_applied_read_back_and_stored_with_its_evidence(rig: Rig) -> None:
    await ticks(rig, GROWS)
    assert rig.engine.cap == 16
    applied = [row.decision for row in await rig.decisions() if row.decision.status is Status.APPLIED]
    assert [(d.old, d.wanted, d.requested, d.observed) for d in applied] == [(8, 16, 16, 16)]
    assert applied[0].reason is Reason.GROW_DEMAND
    assert applied[0].boot_id == "boot-a"
    assert applied[0].evidence["waiting"] == 30
    assert rig.engine.patches[0]["lease_s"] == 15.0


async def test_an_engine_that_reads_another_value_is_diverged_not_applied(rig: Rig) -> None:
    rig.engine.ignore_patches = True
    await ticks(rig, GROWS)
    (row,) = [r for r in await rig.decisions() if r.decision.status is Status.DIVERGED]
    assert row.decision.observed == 8
    assert row.decision.error == "the engine reads 8 after 16 was requested"


async def test_a_refused_change_is_failed_with_the_engines_sentence(rig: Rig) -> None:
    await ticks(rig, 1)
    original = rig.loop._actuator._client.set_knobs

    async def stale(runtime: Any, knobs: Any, lease_s: float) -> Any:
        rig.engine.generation += 1
        return await original(runtime, knobs, lease_s)

    rig.loop._actuator._client.set_knobs = stale  # type: ignore[method-assign]
    await ticks(rig, GROWS)
    failed = [r.decision for r in await rig.decisions() if r.decision.status is Status.FAILED]
    assert failed[0].observed == 8
    assert "another boot or generation is current" in (failed[0].error or "")
    assert rig.engine.cap == 8


async def test_observe_decides_and_records_and_changes_nothing(rig: Rig) -> None:
    rig.build(mode="observe")
    await ticks(rig, 5)
    assert rig.engine.patches == []
    recorded = [r.decision for r in await rig.decisions() if r.decision.status is Status.RECORDED]
    assert [(d.wanted, d.requested) for d in recorded] == [(16, None)]
    assert recorded[0].guards == ("withheld: mode observe changes nothing",)


async def test_static_sets_the_fixed_batch_and_makes_it_the_fallback(rig: Rig) -> None:
    rig.engine.cap = rig.engine.running = 64
    rig.build(mode="static")
    await ticks(rig, 2)
    assert rig.engine.cap == 8
    assert rig.engine.fallback == {"max_num_seqs": 8}


async def test_paused_makes_no_proposal_but_renews_the_lease(rig: Rig) -> None:
    rig.build(mode="paused")
    await ticks(rig, 3)
    assert len(rig.engine.leases) == 3
    assert await rig.decisions() == []


async def test_a_reload_gives_the_lease_the_fallback_of_the_new_mode(rig: Rig) -> None:
    rig.build(mode="static")
    await ticks(rig, 1)
    await rig.loop.reconfigure(Settings(engine=EngineSettings(url=rig.engine.url)))
    await ticks(rig, 1)
    assert rig.engine.fallback == {}


async def test_a_reload_keeps_the_trends_unless_the_pace_or_the_engine_is_another(rig: Rig) -> None:
    rig.build(mode="observe")
    seen = watch_windows(rig)
    await ticks(rig, 3)
    await rig.loop.reconfigure(Settings(mode="observe", engine=EngineSettings(url=rig.engine.url)))
    await ticks(rig, 2)
    assert seen == [0, 1.5, 3.0, 0, 1.5]  # the same estimator, its windows afresh
    await rig.loop.reconfigure(Settings(tick_s=2, engine=EngineSettings(url=rig.engine.url)))
    await ticks(rig, 1)
    assert len(seen) == 5


async def test_a_restarted_engine_is_noticed_once_and_steered_on(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await ticks(rig, GROWS)
    rig.engine.restart()
    rig.engine.cap = rig.engine.running = 8
    await ticks(rig, 5)
    assert rig.engine.cap == 16
    assert sum("the engine restarted" in r.message for r in caplog.records) == 1
    assert sum("steering vLLM" in r.message for r in caplog.records) == 2
    assert {row.decision.boot_id for row in await rig.decisions()} == {"boot-a", "boot-b"}


async def test_an_absent_engine_is_waited_for_and_said_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.build(engine={"url": "http://127.0.0.1:9"})
    await ticks(rig, 4)
    waiting = [r.message for r in caplog.records if "waiting for it" in r.message]
    assert len(waiting) == 1
    assert "127.0.0.1:9" in waiting[0]
    assert rig.loop.observed.failed_ticks == 0


async def test_metrics_that_fail_freeze_growth_and_are_said_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.engine.metrics_status = 500
    await ticks(rig, 5)
    assert rig.engine.patches == []
    assert [r.decision.reason for r in await rig.decisions()] == [Reason.ABSTAIN_UNKNOWN]
    assert sum(r.message.startswith("metrics:") for r in caplog.records) == 1


async def test_with_a_history_that_cannot_be_written_control_goes_on_and_is_recorded_once_it_can_be(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    with locked(rig.path):
        await ticks(rig, 6)
        assert rig.engine.cap > 16
        assert rig.loop.observed.failed_ticks == 0
        assert sum("control goes on" in r.message for r in caplog.records) == 1
        state = rig.loop.observed.history
        assert state is not None
        assert state.problem is not None
    rows = [row.decision for row in await rig.decisions() if row.decision.requested is not None]
    assert [d.requested for d in rows] == [patch["knobs"][MAX_NUM_SEQS] for patch in rig.engine.patches]
    assert {d.status for d in rows} == {Status.APPLIED}


async def test_a_tick_that_raises_is_counted_and_the_loop_goes_on(rig: Rig) -> None:
    async def broken() -> None:
        raise ValueError("unforeseen")

    sense = rig.loop._sensing.snapshot
    rig.loop._sensing.snapshot = broken  # type: ignore[method-assign, assignment]
    await ticks(rig, 2)
    rig.loop._sensing.snapshot = sense  # type: ignore[method-assign]
    await ticks(rig, GROWS)
    assert rig.loop.observed.failed_ticks == 2
    assert rig.engine.cap == 16


async def test_what_is_counted_of_changes_is_what_the_history_holds(rig: Rig) -> None:
    rig.engine.waiting = 10_000
    await ticks(rig, 12)
    rig.engine.ignore_patches = True
    rig.engine.cap = rig.engine.running = 8
    await ticks(rig, 12)
    stored = Counter(row.decision.status for row in await rig.decisions() if row.decision.requested is not None)
    counted = {status: _counted(rig, status) for status in stored}
    assert counted == dict(stored)
    assert stored[Status.APPLIED] > 0
    assert stored[Status.DIVERGED] > 0


async def test_a_hold_is_counted_at_every_tick(rig: Rig) -> None:
    rig.engine.waiting = 0
    await ticks(rig, 6)
    held = _counted(rig, Status.HOLD)
    await ticks(rig, 2)
    assert _counted(rig, Status.HOLD) == held + 2


async def test_a_failed_tick_leaves_the_time_of_the_last_good_one(rig: Rig) -> None:
    await ticks(rig, 1)
    good = rig.loop.observed.succeeded_at

    def broken(*_args: Any) -> Any:
        raise ValueError("unforeseen")

    rig.loop._decide = broken  # type: ignore[method-assign, assignment]
    await ticks(rig, 2)
    observed = rig.loop.observed
    assert (observed.ticks, observed.failed_ticks, sum(observed.durations.counts)) == (3, 2, 3)
    assert good is not None
    assert observed.succeeded_at == good
    assert observed.snapshot is not None
    assert observed.snapshot.wall > good


async def test_ticks_longer_than_their_pace_are_said_once_and_counted(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    def slow() -> None:
        rig.clock.s += 1.25

    await ticks(rig, 2)
    rig.driver.reading = slow
    await ticks(rig, 3)
    assert [r.message for r in caplog.records if "longer than tick_s" in r.message] == [
        "pace: ticks take longer than tick_s, some are left out"
    ]
    assert rig.loop.observed.durations.total_s == 3 * 1.25


def _counted(rig: Rig, status: Status) -> int:
    counted = rig.loop.observed.outcomes
    return sum(n for one, n in counted.items() if (one.knob, one.status) == (MAX_NUM_SEQS, status.value))


async def test_a_hold_for_the_same_reason_is_one_row(rig: Rig) -> None:
    rig.engine.waiting = 0
    await ticks(rig, 6)
    rows = await rig.decisions()
    assert [r.decision.reason for r in rows] == [Reason.HOLD_NO_DEMAND]


async def test_a_driver_call_that_hangs_leaves_one_thread_and_the_loop_alive(rig: Rig) -> None:
    rig.build(gpu={"timeout_s": 0.01})
    release, calls = threading.Event(), 0

    def hanging() -> None:
        nonlocal calls
        calls += 1
        release.wait(30)

    rig.driver.reading = hanging
    await ticks(rig, 4)
    assert calls == 1
    assert rig.engine.cap == 16
    release.set()


async def test_a_broken_driver_library_is_said_once_and_the_loop_goes_on(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise OSError("libnvidia-ml.so.1: file too short")

    rig.driver.reading = broken
    await ticks(rig, 4)
    assert rig.engine.cap == 16
    assert sum("file too short" in r.message for r in caplog.records) == 1


async def test_a_lost_answer_is_looked_up_and_never_repeated(rig: Rig) -> None:
    rig.engine.drop_answers = True
    await ticks(rig, GROWS)
    rig.engine.drop_answers = False
    assert len(rig.engine.patches) == 1
    (row,) = [r for r in await rig.decisions() if r.decision.requested is not None]
    assert (row.decision.status, row.decision.observed) == (Status.APPLIED, 16)


async def test_an_outcome_that_could_not_be_written_is_written_later(rig: Rig) -> None:
    rig.engine.waiting = 10_000
    call = rig.loop._actuator._client.set_knobs

    async def locking(runtime: Any, knobs: Any, lease_s: float) -> Any:
        lock.enter_context(locked(rig.path))
        return await call(runtime, knobs, lease_s)

    rig.loop._actuator._client.set_knobs = locking  # type: ignore[method-assign]
    with ExitStack() as lock:
        await ticks(rig, GROWS)
        assert rig.engine.cap == 16
        (row,) = [r for r in await rig.history.decisions.select(knob=MAX_NUM_SEQS) if r.decision.requested is not None]
        assert row.decision.status is Status.INTENDED
    rig.engine.waiting = 0
    changed = [r.decision for r in await rig.decisions() if r.decision.requested is not None]
    assert [d.status for d in changed] == [Status.APPLIED]


async def test_an_engine_met_while_the_history_is_down_is_greeted_at_once_and_its_run_written_later(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with locked(rig.path):
        await ticks(rig, 3)
        assert sum("steering vLLM" in r.message for r in caplog.records) == 1
    assert {row.decision.boot_id for row in await rig.decisions()} == {"boot-a"}


async def test_an_engine_that_ignores_changes_is_asked_less_and_less(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.engine.ignore_patches = True
    await ticks(rig, 40)
    assert 2 <= len(rig.engine.patches) <= 7
    warnings = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert len(await rig.decisions()) <= 2 * len(rig.engine.patches) + 2


async def test_a_static_batch_over_the_envelope_is_kept_inside_it(rig: Rig) -> None:
    rig.engine.startup = rig.engine.cap = rig.engine.running = 4
    rig.build(mode="static")
    await ticks(rig, 3)
    assert rig.engine.fallback == {"max_num_seqs": 4}
    assert [r.decision.guards for r in await rig.decisions()] == [
        ("clamped from 8 to 4: the envelope of max_num_seqs is 1 to 4",)
    ]


async def test_a_fallback_that_somebody_else_renamed_is_set_again(rig: Rig) -> None:
    rig.build(mode="static")
    await ticks(rig, 2)
    rig.engine.fallback = {"max_num_seqs": 50}
    await ticks(rig, 1)
    assert rig.engine.fallback == {"max_num_seqs": 8}


async def test_a_knob_moved_by_somebody_else_starts_the_windows_afresh(rig: Rig) -> None:
    rig.build(mode="observe")
    seen = watch_windows(rig)
    await ticks(rig, 4)
    rig.engine.cap = rig.engine.running = 32
    await ticks(rig, 2)
    assert seen == [0, 1.5, 3.0, 4.5, 0, 1.5]


async def test_while_a_cut_drains_nothing_is_measured(rig: Rig) -> None:
    rig.build(mode="observe")
    rig.engine.running = 40
    seen = watch_windows(rig)
    await ticks(rig, 3)
    rig.engine.running = 8
    await ticks(rig, 3)
    assert seen == [0, 0, 0, 0, 1.5, 3.0]


def watch_windows(rig: Rig) -> list[float]:
    """The length of each view's window; the clock moves 1.5 s a tick."""
    seen: list[float] = []
    update = rig.loop._estimator.update

    def recording(*args: Any) -> Any:
        view = update(*args)
        seen.append(view.window_s)
        return view

    rig.loop._estimator.update = recording  # type: ignore[method-assign, assignment]
    return seen


async def test_in_a_maintenance_window_nothing_changes_the_lease_goes_on_and_afterwards_it_steers(rig: Rig) -> None:
    window = {"name": "driver", "begin": "1970-01-01T00:00:00Z", "end": "1970-01-01T00:16:50Z"}
    rig.build(maintenance=[window])  # the clock begins at 00:16:41.5
    await ticks(rig, 5)
    assert (rig.engine.patches, len(rig.engine.leases)) == ([], 5)
    inside = rig.loop.observed.mode, rig.loop.observed.maintenance is None
    assert inside == (Mode.PAUSED, False)
    await ticks(rig, 5)
    assert rig.engine.cap > 8
    outside = rig.loop.observed.mode, rig.loop.observed.maintenance is None
    assert outside == (Mode.AUTO, True)
    noted = [row.decision for row in await rig.decisions("maintenance")]
    assert {d.status for d in noted} == {Status.NOTED}
    assert [d.reason for d in noted] == [Reason.MAINTENANCE_BEGAN, Reason.MAINTENANCE_ENDED]


async def test_a_reload_that_opens_a_window_stops_changes_at_the_next_tick(rig: Rig) -> None:
    await ticks(rig, 1)
    window = MaintenanceSettings.model_validate({"begin": "1970-01-01T00:00:00Z", "end": "1970-01-02T00:00:00Z"})
    await rig.loop.reconfigure(Settings(engine=EngineSettings(url=rig.engine.url), maintenance=(window,)))
    await ticks(rig, 6)
    assert rig.engine.patches == []


async def test_an_event_that_cannot_be_written_yet_is_logged(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rig.build(maintenance=[{"begin": "1970-01-01T00:00:00Z", "end": "1970-01-02T00:00:00Z"}])
    with locked(rig.path):
        await ticks(rig, 3)
        assert sum("nothing is changed until" in r.message for r in caplog.records) == 1
    assert len(await rig.decisions("maintenance")) == 1


async def test_a_change_is_sent_only_once_its_intent_can_be_read_by_another(rig: Rig) -> None:
    seen: list[list[tuple[str, float]]] = []

    def look(_body: Any) -> None:
        with closing(sqlite3.connect(rig.path)) as other:
            seen.append(other.execute("SELECT status, requested FROM decisions ORDER BY id DESC LIMIT 1").fetchall())

    rig.engine.on_patch = look
    rig.engine.waiting = 10_000
    await ticks(rig, 10)
    asked = [patch["knobs"][MAX_NUM_SEQS] for patch in rig.engine.patches]
    assert len(asked) > 1
    assert seen == [[("intended", value)] for value in asked]


async def test_each_tick_leaves_a_reading_and_a_minute_an_entry_of_the_ledger(rig: Rig) -> None:
    rig.engine.waiting = 0
    await ticks(rig, 82)
    await written(rig.writer)
    begin, end = (datetime.fromtimestamp(second, UTC) for second in (0, 10_000))
    readings = await rig.history.readings.span(begin, end, points=1000)
    entries = await rig.history.ledger.entries(begin, end)
    assert len(readings) == 82
    assert all((one.means["running"], one.knobs["max_num_seqs"]) == (8, 8) for one in readings)
    assert "gpu_power_w" not in readings[0].means
    assert sum(entry.seconds for entry in entries) > 30
