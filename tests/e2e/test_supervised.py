"""The daemon as systemd sees it: a real process that tells a real datagram socket. No engine is needed for most."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bench.demo.daemon import Daemon
from bench.ports import free_port
from tests.fake_engine import FakeEngine
from tests.manager import Manager, Told
from tests.waiting import until

WATCHDOG_S = 4
"""Shorter than the unit's, so that a test need not wait a minute."""
HANGS = """
import os, pathlib, time
from policies.base import PolicySettings

class Hangs:
    name = "hangs"

    class Settings(PolicySettings):
        enabled: bool = True

    def __init__(self, settings):
        pass

    def initial_state(self):
        return None

    def decide(self, state, view):
        while pathlib.Path(os.environ["HANG_WHILE"]).exists():
            pathlib.Path(os.environ["HANGS"]).touch()
            time.sleep(0.02)
        return state, ()
"""


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    with Manager(f"@governor-{uuid4().hex}") as manager:
        for name, value in manager.environment(WATCHDOG_USEC=str(WATCHDOG_S * 1_000_000)).items():
            monkeypatch.setenv(name, value)
        yield manager


@asynccontextmanager
async def started(folder: Path, url: str, **settings: Any) -> AsyncIterator[Daemon]:
    """A daemon that ticks twice a second."""
    store = {"url": str(folder / "history.db")}
    # Ticks may take 5 x timeout_s + 5 s: so the manager is asked for a little more patience than it has.
    daemon = Daemon(folder, {"tick_s": 0.5, "engine": {"url": url, "timeout_s": 0.2}, "store": store})
    daemon.start(**settings)
    try:
        yield daemon
    finally:
        await daemon.stop()


def nowhere() -> str:
    return f"http://127.0.0.1:{free_port()}"


def fed(told: Told) -> bool:
    return "WATCHDOG" in told


async def test_it_is_ready_and_lives_on_without_an_engine(manager: Manager, tmp_path: Path) -> None:
    async with started(tmp_path, nowhere()) as daemon:
        ready = await manager.word("READY")
        assert int(ready["WATCHDOG_USEC"]) >= WATCHDOG_S * 1_000_000
        for _ in range(6):
            await manager.until(fed, "that it lives", WATCHDOG_S)

        def says_why() -> bool:
            manager.read()
            return any("the engine does not answer" in told.get("STATUS", "") for told in manager.told)

        await until("it says what it waits for", says_why)
        os.kill(daemon.pid, signal.SIGTERM)
        assert (await manager.word("STOPPING"))["STATUS"].startswith("stopping")


async def test_a_reload_is_told_and_ended_and_the_status_has_the_new_mode(manager: Manager, tmp_path: Path) -> None:
    engine = FakeEngine()
    await engine.server.start_server()
    async with started(tmp_path, engine.url) as daemon:
        await manager.word("READY")
        before_us = int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)
        daemon.configure(mode="observe")
        assert int((await manager.word("RELOADING"))["MONOTONIC_USEC"]) >= before_us
        assert (await manager.word("READY"))["STATUS"].startswith("mode observe")
    await engine.server.close()


async def test_a_reload_that_is_refused_ends_too_and_the_old_mode_stays(manager: Manager, tmp_path: Path) -> None:
    async with started(tmp_path, nowhere()) as daemon:
        await manager.word("READY")
        daemon.configure(mode="sideways")
        await manager.word("RELOADING")
        assert (await manager.word("READY"))["STATUS"].startswith("mode auto")
        await manager.until(fed, "that it lives", WATCHDOG_S)


async def test_a_loop_that_hangs_lets_the_watchdog_starve_and_the_abort_says_where_it_hung(
    manager: Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang, hung = tmp_path / "hang", tmp_path / "hung"
    _install_policy(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("HANG_WHILE", str(hang))
    monkeypatch.setenv("HANGS", str(hung))
    async with started(tmp_path, nowhere()) as daemon:
        patience_s = int((await manager.word("READY"))["WATCHDOG_USEC"]) / 1e6
        await manager.until(fed, "that it lives", WATCHDOG_S)
        hang.touch()
        await until("a tick hangs", hung.exists)
        manager.read()
        await asyncio.sleep(patience_s)
        assert manager.read() == [], "it hangs, and says that it lives"
        os.kill(daemon.pid, signal.SIGABRT)  # what systemd does now
        assert os.waitid(os.P_PID, daemon.pid, os.WEXITED | os.WNOWAIT) is not None  # noqa: ASYNC222
        log = daemon.log.read_text()
        assert "Fatal Python error: Aborted" in log
        assert 'governor_hangs.py", line' in log, "the stack that hung is in the journal"


async def test_an_engine_that_hangs_is_not_a_loop_that_does(manager: Manager, tmp_path: Path) -> None:
    engine = FakeEngine()
    await engine.server.start_server()
    async with started(tmp_path, engine.url):
        await manager.word("READY")
        engine.answering.clear()
        for _ in range(4):
            await manager.until(fed, "that it lives", WATCHDOG_S)
        engine.answering.set()
    await engine.server.close()


def _install_policy(folder: Path) -> None:
    """As docs/custom-policy.md has it, without pip."""
    about = folder / "governor_hangs-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "governor_hangs.py").write_text(HANGS)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: governor-hangs\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[vllm_governor.policies]\nhangs = governor_hangs:Hangs\n")
