"""The client's example, against a real server of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys

import aiohttp
import pytest
from aiohttp import web

from bench.ports import free_port
from deploy.client import heartbeat


async def beat(url: str, beats: int) -> list[int | None]:
    """What the first so many beats were told, and nothing else went wrong."""
    told: list[int | None] = []
    enough = asyncio.Event()

    def on_beat(status: int | None) -> None:
        told.append(status)
        if len(told) == beats:
            enough.set()

    async with aiohttp.ClientSession(connector=heartbeat.connector()) as session:
        task = asyncio.create_task(heartbeat.keep_alive(session, url, 0.0, on_beat))
        await asyncio.wait_for(enough.wait(), 20)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return told


async def test_beats_are_answered_one_after_the_other() -> None:
    async def health(_: web.Request) -> web.Response:
        return web.Response()

    application = web.Application()
    application.router.add_get("/health", health)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    try:
        assert await beat(f"http://{host}:{port}", 3) == [200, 200, 200]
    finally:
        await runner.cleanup()


async def test_each_connection_probes_at_the_seeds_interval() -> None:
    made: list[socket.socket] = []
    factory = heartbeat.connector()._socket_factory
    assert factory is not None
    made.append(factory((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 1))))
    with made[0] as one:
        read = {name: one.getsockopt(level, name) for level, name, _ in heartbeat.SOCKET_OPTIONS}
    assert read[socket.SO_KEEPALIVE] == 1
    assert read[socket.TCP_KEEPIDLE] == read[socket.TCP_KEEPINTVL] == 25


async def test_a_server_that_is_away_ends_no_heartbeat() -> None:
    assert await beat(f"http://127.0.0.1:{free_port()}", 2) == [None, None]


def test_the_client_lets_go_of_an_idle_connection_before_nginx_does() -> None:
    assert heartbeat.HEARTBEAT_S < heartbeat.IDLE_LIMIT_S < 180


@pytest.mark.parametrize("arguments", [[], ["a", "b"]])
def test_a_wrong_call_says_how_it_is_called(arguments: list[str]) -> None:
    command = [sys.executable, heartbeat.__file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "usage: python heartbeat.py URL" in done.stderr
