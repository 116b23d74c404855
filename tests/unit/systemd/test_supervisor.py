"""When systemd is told what: ready at once, fed by ticks that end, whatever the engine does. Time is the test's."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controller.supervision.supervisor import Supervisor, watchdog_us
from tests.fake_engine import FakeEngine
from tests.loop_rig import GROWS, Rig, rigged, ticks
from tests.manager import Manager

WATCHDOG_S = 60
QUARTER_HOUR = 600
"""Ticks of 1.5 s."""


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rigged(tmp_path / "history.db") as rig:
        yield rig


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with Manager(tmp_path / "notify") as manager:
        yield manager


def supervised(rig: Rig, manager: Manager, **environment: str) -> Supervisor:
    """As app.py does it."""
    given = {"WATCHDOG_USEC": str(WATCHDOG_S * 1_000_000), "WATCHDOG_PID": str(os.getpid()), **environment}
    supervisor = Supervisor(rig.loop.observed, environment=manager.environment(**given))
    rig.loop.listeners.append(supervisor)
    supervisor.ready()
    return supervisor


async def test_an_engine_that_is_absent_for_a_quarter_of_an_hour_at_boot_keeps_nobody_from_ready_or_alive(
    rig: Rig, manager: Manager
) -> None:
    """S4: a slow start of vLLM must not have the daemon killed."""
    port = rig.engine.server.port
    await rig.engine.server.close()
    supervised(rig, manager)
    assert manager.read()[0]["READY"] == "1", "before the first tick"
    gaps, fed_s = [], rig.clock.s
    for _ in range(QUARTER_HOUR):
        await ticks(rig, 1)
        if any("WATCHDOG" in told for told in manager.read()):
            gaps.append(rig.clock.s - fed_s)
            fed_s = rig.clock.s
    assert len(gaps) == QUARTER_HOUR
    assert max(gaps) < WATCHDOG_S / 2
    assert manager.told[-1].keys() == {"WATCHDOG"}, "the status is told when it is another"
    assert [told["STATUS"] for told in manager.told if "the engine does not answer" in told.get("STATUS", "")]
    rig.engine = FakeEngine(port)
    await rig.engine.server.start_server()
    await ticks(rig, 1 + GROWS)
    manager.read()
    assert "the engine does not answer" not in [t["STATUS"] for t in manager.told if "STATUS" in t][-1]


async def test_the_status_shows_the_mode_and_the_last_decision(rig: Rig, manager: Manager) -> None:
    supervised(rig, manager)
    assert manager.read()[0]["STATUS"] == "mode auto; nothing decided yet"
    await ticks(rig, 1 + GROWS)
    manager.read()
    status = [told["STATUS"] for told in manager.told if "STATUS" in told][-1]
    (decision, *_) = [one for one in await rig.decisions() if one.decision.requested is not None]
    assert status.startswith("mode auto; ")
    assert f"max_num_seqs 8 -> {rig.engine.cap}, applied: {decision.decision.sentence}" in status


async def test_a_tick_that_fails_feeds_no_watchdog_and_says_so(
    rig: Rig, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervised(rig, manager)
    await ticks(rig, 2)
    manager.read()

    def broken(*_: object) -> None:
        raise ValueError("a fault of ours")

    monkeypatch.setattr(rig.loop._estimator, "update", broken)
    await ticks(rig, 50)
    told = manager.read()
    assert not any("WATCHDOG" in one for one in told), "the watchdog starves"
    assert len(told) == 1
    assert "the last tick failed" in told[0]["STATUS"]
    monkeypatch.undo()
    await ticks(rig, 1)
    assert manager.read()[0]["WATCHDOG"] == "1"


async def test_a_tick_that_never_ends_feeds_no_watchdog(
    rig: Rig, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervised(rig, manager)
    await ticks(rig, 1)
    manager.read()
    entered = asyncio.Event()

    async def never() -> None:
        entered.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(rig.loop._sensing, "snapshot", never)
    tick = asyncio.create_task(rig.loop.tick())
    await entered.wait()
    assert manager.read() == []
    tick.cancel()
    await asyncio.gather(tick, return_exceptions=True)
    assert manager.read() == []


async def test_settings_that_let_a_tick_take_longer_than_the_units_watchdog_ask_for_more(
    rig: Rig, manager: Manager
) -> None:
    rig.build(tick_s=60.0, engine={"url": rig.engine.url, "lease_s": 600.0})
    supervised(rig, manager)
    assert int(manager.read()[0]["WATCHDOG_USEC"]) == round(rig.loop.observed.fresh_for_s * 1e6) > WATCHDOG_S * 1e6


async def test_settings_as_usual_leave_the_units_watchdog(rig: Rig, manager: Manager) -> None:
    supervised(rig, manager)
    assert int(manager.read()[0]["WATCHDOG_USEC"]) == WATCHDOG_S * 1_000_000


async def test_a_reload_is_told_with_the_time_and_ended_with_ready(rig: Rig, manager: Manager) -> None:
    supervisor = supervised(rig, manager)
    manager.read()
    before_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    supervisor.reloading()
    supervisor.ready()
    began, ended = manager.read()
    assert (began["RELOADING"], ended["READY"]) == ("1", "1")
    assert before_us - 1 <= int(began["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


async def test_a_stop_is_told_and_then_nothing_more(rig: Rig, manager: Manager) -> None:
    supervisor = supervised(rig, manager)
    manager.read()
    supervisor.stopping()
    supervisor.close()
    await ticks(rig, 1)
    assert [told["STOPPING"] for told in manager.read()] == ["1"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": ""}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30_000_000),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30_000_000),
    ],
)
def test_the_watchdog_is_the_one_that_is_meant_for_this_process(
    environment: dict[str, str], expected: int | None
) -> None:
    assert watchdog_us(environment) == expected
