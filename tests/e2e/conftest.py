"""One real vLLM for the whole run, with the plugin and a tiny model on the CPU."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from bench.demo.daemon import Daemon
from bench.server import VllmServer
from bench.server_options import VllmOptions
from controller.engine.client import EngineClient
from tests.e2e.rig import Rig

LEASE_S = 8.0
"""Long enough for a daemon that gets little of the machine, short enough to be waited for."""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """A started server; a test that stops or kills it starts it again."""
    server = VllmServer(tmp_path_factory.mktemp("vllm"), VllmOptions(max_num_seqs=64))
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture
async def rig(server: VllmServer, tmp_path: Path) -> AsyncIterator[Rig]:
    """A daemon that is not started yet, beside the server; the engine's knobs are at their start-up values."""
    if not server.alive:
        await server.start()
    history = tmp_path / "history.db"
    engine = {"url": server.url, "token_file": str(server.token_file), "lease_s": LEASE_S}
    daemon = Daemon(tmp_path, {"tick_s": 0.5, "engine": engine, "store": {"url": str(history)}})
    async with aiohttp.ClientSession() as session:
        await asyncio.sleep(0.1)  # the tests together stay under the routes' rate limit
        rig = Rig(server, daemon, EngineClient(session, server.url, server.token_file, 30.0), session, history)
        yield rig
        await daemon.stop()
        if server.alive:
            await rig.reset()
