"""The end of the daemon (S3 of the field cases), and two daemons on one engine, as processes over real sockets."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bench.demo.daemon import Daemon
from bench.ports import free_port
from tests.fake_engine import FakeEngine
from tests.waiting import until

STREAMS = 20
MOST_S = 10.0
"""Promised to whoever stops it: systemd's patience, and an operator's."""


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    engine = FakeEngine()
    engine.names_holder = True
    await engine.server.start_server()
    yield engine
    engine.answering.set()
    await engine.server.close()


@asynccontextmanager
async def running(folder: Path, engine: FakeEngine, **settings: Any) -> AsyncIterator[tuple[Daemon, str]]:
    """A daemon and where it listens."""
    port = free_port()
    base = {"tick_s": 0.5, "engine": {"url": engine.url}, "store": {"url": str(folder / "history.db")}}
    daemon = Daemon(folder, {**base, "api": {"port": port}})
    daemon.start(guards={"warm_up_s": 0}, **settings)
    try:
        yield daemon, f"http://127.0.0.1:{port}"
    finally:
        await daemon.stop()


async def status(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    """Empty while it does not answer."""
    try:
        async with session.get(f"{url}/api/v1/status") as answer:
            document: dict[str, Any] = await answer.json()
            return document
    except aiohttp.ClientError:
        return {}


def ended(process: int) -> bool:
    """Whether it has; the daemon is a child of this process, and is left for Daemon.stop to wait for."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


@pytest.mark.parametrize("hanging", [False, True], ids=["engine answers", "engine hangs"])
async def test_at_sigterm_it_ends_within_ten_seconds_whoever_listens_and_all_is_written(
    engine: FakeEngine, tmp_path: Path, hanging: bool
) -> None:
    timeout = aiohttp.ClientTimeout(total=None, sock_read=60)
    async with (
        running(tmp_path, engine) as (daemon, url),
        aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session,
    ):

        async def ticking() -> bool:
            return bool((await status(session, url)).get("ticks", {}).get("ticks", 0) > 3)

        await until("the daemon ticks", ticking)
        streams = [await session.get(f"{url}/api/v1/events") for _ in range(STREAMS)]
        assert {one.status for one in streams} == {200}
        reading = [asyncio.ensure_future(one.content.read()) for one in streams]
        half, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"GET /api/v1/status HTTP/1.1\r\nHost: x\r\n")  # a request that never ends
        if hanging:
            asked = len(engine.leases)
            engine.answering.clear()
            await until("a tick waits for the engine", lambda: len(engine.leases) > asked)
        ticks = (await status(session, url))["ticks"]["ticks"]
        os.kill(daemon.pid, signal.SIGTERM)
        await until("the daemon has ended", lambda: ended(daemon.pid), MOST_S)
        assert all(one.startswith(b"retry:") for one in await asyncio.gather(*reading))
        writer.close()
        del half
    with closing(sqlite3.connect(tmp_path / "history.db")) as history:
        (rows,) = history.execute("select count(*) from readings where resolution_s = 1").fetchone()
        (recorded,) = history.execute("select sum(ticks) from recordings").fetchone()
    assert min(rows, recorded) >= ticks - 1


async def test_a_second_daemon_on_the_engine_observes_says_so_and_takes_over_when_the_first_ends(
    engine: FakeEngine, tmp_path: Path
) -> None:
    async with (
        aiohttp.ClientSession() as session,
        running(tmp_path / "a", engine) as (first, _),
    ):
        await until("the first daemon steers", lambda: engine.holder is not None)
        async with running(tmp_path / "b", engine) as (_, url):
            seen: dict[str, Any] = {}

            async def observing() -> bool:
                seen.clear()
                seen.update(await status(session, url))
                return bool(seen.get("mode", {}).get("in_force") == "observe")

            await until("the second daemon sees who steers", observing)
            assert f"process {first.pid} on {socket.gethostname()}" in seen["engine"]["held_by"]
            assert "steers this engine" in seen["mode"]["because"]
            assert "lease" in {one["what"] for one in seen["problems"]}
            os.kill(first.pid, signal.SIGKILL)

            async def steering() -> bool:
                return bool((await status(session, url)).get("mode", {}).get("in_force") == "auto")

            await until("the second daemon steers", steering)
