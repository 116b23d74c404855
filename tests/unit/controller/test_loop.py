"""The loop against an engine that misbehaves. No real time passes: each test calls `tick` itself."""

import logging
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controller.clock import Now
from controller.loop import Loop
from controller.sensors.nvml import NvmlSensor
from controller.settings import EngineSettings, Settings
from controller.threads import BoundedCall
from domain.decision import Reason, Status
from domain.errors import HistoryUnavailable
from store.database import database_url
from store.history import History, StoredDecision
from tests.fake_engine import FakeEngine


class Clock:
    """Each reading is 1.5 s after the last."""

    def __init__(self) -> None:
        self._s = 1000.0

    def __call__(self) -> Now:
        self._s += 1.5
        return Now(self._s, datetime.fromtimestamp(self._s, UTC))


class Rig:
    """A loop, its engine and its history. Time is the test's."""

    def __init__(self, engine: FakeEngine, session: aiohttp.ClientSession, history: History) -> None:
        self.engine, self.session, self.history = engine, session, history
        self.loop = self.build()

    def build(self, **settings: Any) -> Loop:
        values: dict[str, Any] = {"engine": {"url": self.engine.url}, "tick_s": 1.0} | settings
        nvml = NvmlSensor()
        nvml.absence = "no GPU in this test"
        self.loop = Loop(Settings(**values), self.session, self.history, nvml, Clock())
        return self.loop

    async def decisions(self) -> list[StoredDecision]:
        return await self.history.decisions(limit=100)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    engine = FakeEngine()
    await engine.server.start_server()
    history = History(database_url(str(tmp_path / "history.db")))
    await history.open()
    async with aiohttp.ClientSession() as session:
        yield Rig(engine, session, history)
    await history.close()
    await engine.server.close()


async def ticks(rig: Rig, count: int) -> None:
    for _ in range(count):
        await rig.loop.tick()


async def test_a_change_is_applied_read_back_and_stored_with_its_evidence(rig: Rig) -> None:
    await ticks(rig, 3)
    assert rig.engine.cap == 16
    applied = [row.decision for row in await rig.decisions() if row.decision.status is Status.APPLIED]
    assert [(d.old, d.wanted, d.requested, d.observed) for d in applied] == [(8, 16, 16, 16)]
    assert applied[0].reason is Reason.GROW_DEMAND
    assert applied[0].boot_id == "boot-a"
    assert applied[0].evidence["waiting"] == 30
    assert rig.engine.patches[0]["lease_s"] == 15.0


async def test_an_engine_that_reads_another_value_is_diverged_not_applied(rig: Rig) -> None:
    rig.engine.ignore_patches = True
    await ticks(rig, 3)
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
    await ticks(rig, 2)
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


async def test_a_restarted_engine_is_noticed_once_and_steered_on(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await ticks(rig, 3)
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
    assert rig.loop.failed_ticks == 0


async def test_metrics_that_fail_freeze_growth_and_are_said_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.engine.metrics_status = 500
    await ticks(rig, 5)
    assert rig.engine.patches == []
    assert [r.decision.reason for r in await rig.decisions()] == [Reason.ABSTAIN_UNKNOWN]
    assert sum(r.message.startswith("metrics:") for r in caplog.records) == 1


async def test_without_a_history_no_change_is_made(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(*_args: Any) -> list[int]:
        raise HistoryUnavailable("cannot use the history: disk full")

    rig.history.add = broken  # type: ignore[method-assign, assignment]
    await ticks(rig, 4)
    assert rig.engine.patches == []
    assert rig.loop.failed_ticks == 0
    assert any("disk full" in r.message for r in caplog.records)


async def test_a_tick_that_raises_is_counted_and_the_loop_goes_on(rig: Rig) -> None:
    async def broken() -> None:
        raise ValueError("unforeseen")

    sense = rig.loop._sense
    rig.loop._sense = broken  # type: ignore[method-assign, assignment]
    await ticks(rig, 2)
    rig.loop._sense = sense  # type: ignore[method-assign]
    await ticks(rig, 3)
    assert rig.loop.failed_ticks == 2
    assert rig.engine.cap == 16


async def test_a_hold_for_the_same_reason_is_one_row(rig: Rig) -> None:
    rig.engine.waiting = 0
    await ticks(rig, 6)
    rows = await rig.decisions()
    assert [r.decision.reason for r in rows] == [Reason.HOLD_NO_DEMAND]


async def test_a_driver_call_that_hangs_leaves_one_thread_and_the_loop_alive(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.loop.NVML_LIMIT_S", 0.01)
    release, calls = threading.Event(), 0

    def hanging() -> None:
        nonlocal calls
        calls += 1
        release.wait(30)

    rig.loop._read_nvml = BoundedCall("nvml", hanging)
    await ticks(rig, 4)
    assert calls == 1
    assert rig.engine.cap == 16
    release.set()


async def test_a_broken_driver_library_is_said_once_and_the_loop_goes_on(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise OSError("libnvidia-ml.so.1: file too short")

    rig.loop._read_nvml = BoundedCall("nvml", broken)
    await ticks(rig, 4)
    assert rig.engine.cap == 16
    assert sum("file too short" in r.message for r in caplog.records) == 1


async def test_a_lost_answer_is_looked_up_and_never_repeated(rig: Rig) -> None:
    rig.engine.drop_answers = True
    await ticks(rig, 3)
    rig.engine.drop_answers = False
    assert len(rig.engine.patches) == 1
    (row,) = [r for r in await rig.decisions() if r.decision.requested is not None]
    assert (row.decision.status, row.decision.observed) == (Status.APPLIED, 16)


async def test_an_outcome_that_could_not_be_written_is_written_later(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    conclude = rig.history.conclude

    async def broken(*_args: Any) -> None:
        raise HistoryUnavailable("cannot use the history: disk full")

    rig.history.conclude = broken  # type: ignore[method-assign, assignment]
    rig.engine.waiting = 10_000
    await ticks(rig, 3)
    assert rig.engine.cap == 16
    assert not any("no change is made" in r.message for r in caplog.records)
    rig.engine.waiting = 0
    rig.history.conclude = conclude  # type: ignore[method-assign]
    await ticks(rig, 1)
    changed = [r.decision for r in await rig.decisions() if r.decision.requested is not None]
    assert [d.status for d in changed] == [Status.APPLIED]


async def test_an_engine_met_while_the_history_is_down_is_greeted_when_it_is_back(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    begin = rig.history.start_run

    async def broken(*_args: Any) -> int:
        raise HistoryUnavailable("cannot use the history: disk full")

    rig.history.start_run = broken  # type: ignore[method-assign, assignment]
    await ticks(rig, 3)
    assert rig.loop.failed_ticks == 0
    assert sum("disk full" in r.message for r in caplog.records) == 1
    rig.history.start_run = begin  # type: ignore[method-assign]
    await ticks(rig, 2)
    assert sum("steering vLLM" in r.message for r in caplog.records) == 1


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
