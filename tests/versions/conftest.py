"""A live server of the vLLM that `TEST_VLLM` names (default: the newest), and a client of its admin RPC.

Here: fixtures and the client. Never here: a law. `make test-engines` runs these tests once per version.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from bench.server import VllmServer
from bench.server_options import VllmOptions
from bench.setup import engines, places

VERSION = os.environ.get("TEST_VLLM", engines.VERSIONS[-1])
NEWEST = engines.VERSIONS[-1] == VERSION
EMULATED = "bench.emulated_gpu.executor.EmulatedGpuExecutor"
TWO_OF_EACH = ("--data-parallel-size", "2", "--api-server-count", "2")


@dataclass(frozen=True, slots=True)
class Client:
    """One server, called as an operator's tool calls it. Every call takes a new connection, so any API process."""

    server: VllmServer
    session: aiohttp.ClientSession

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Status and body of one governor call."""
        headers = {"Authorization": f"Bearer {self.server.token}"}
        url = f"{self.server.url}/governor/v1/{path}"
        async with self.session.request(method, url, json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def ok(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """The document, of a call that must succeed."""
        status, document = await self.call(method, path, body)
        assert status == 200, document
        return document

    async def runtime(self) -> dict[str, Any]:
        return await self.ok("GET", "runtime")

    async def patch(self, lease_s: float = 60, **knobs: Any) -> dict[str, Any]:
        """A PATCH by somebody who has seen everything."""
        now = await self.runtime()
        body = {"boot_id": now["boot_id"], "generation": now["generation"], "lease_s": lease_s, "knobs": knobs}
        return await self.ok("PATCH", "runtime", body)

    async def complete(self, number: int, max_tokens: int = 12) -> int:
        """Tokens of one completion that must succeed."""
        prompt = [10 + (number + place) % 400 for place in range(16)]
        body = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True}
        async with self.session.post(f"{self.server.url}/v1/completions", json=body) as answer:
            assert answer.status == 200, await answer.text()
            return int((await answer.json())["usage"]["completion_tokens"])


async def until(what: str, condition: Callable[[], Awaitable[bool]], limit_s: float) -> None:
    """Wait until `condition` holds; fails naming `what` after `limit_s`."""
    began_s = time.monotonic()
    while not await condition():
        assert time.monotonic() - began_s < limit_s, f"{what}: not within {limit_s:.0f} s"
        await asyncio.sleep(0.1)


def _serve(folder: Any, options: VllmOptions) -> Iterator[VllmServer]:
    server = VllmServer(folder, options, python=engines.environment(VERSION) / "bin" / "python")
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """A server with one engine core that computes the tiny model."""
    yield from _serve(tmp_path_factory.mktemp("one"), VllmOptions(max_num_seqs=16))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """A server with two engine cores on emulated GPUs behind two API processes."""
    path = {"PYTHONPATH": os.pathsep.join([str(places.PLUGIN_OVERLAY), str(places.ROOT)])}
    options = VllmOptions(max_num_seqs=16, executor=EMULATED, extra_args=TWO_OF_EACH, extra_env=path)
    yield from _serve(tmp_path_factory.mktemp("two"), options)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """Connections that are used once."""
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield session
