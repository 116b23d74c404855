"""The engine's own statistics from a real vLLM: what they count is what was sent."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.engine.client import EngineClient
from controller.engine.connections import Connections
from controller.sensors.engine import EngineStatsSensor
from controller.settings import EngineSettings
from domain.readings.engine import CoreStats, EngineStats, RequestRecord
from domain.runtime import EngineRuntime
from tests.e2e.rig import Rig

BLOCK_BYTES = 32 * 2 * 2 * 2 * 32 * 4
"""The tiny model's: tokens of a block x layers x key and value x heads x head size x float32."""


class Reader:
    """The daemon's sensor beside the server, and all it has read."""

    def __init__(self, rig: Rig, client: EngineClient) -> None:
        self.rig = rig
        self.client = client
        self.sensor = EngineStatsSensor(client)
        self.records: list[RequestRecord] = []
        self.lost = 0

    async def read(self) -> EngineStats:
        stats = await self.sensor.read()
        self.records += stats.records
        self.lost += stats.records_lost
        return stats

    async def core(self) -> CoreStats:
        (core,) = (await self.read()).cores
        return core

    async def drain(self) -> CoreStats:
        """Read until there is nothing more, and forget it: earlier tests' requests."""
        before = -1
        while len(self.records) > before:
            before = len(self.records)
            core = await self.core()
        self.records.clear()
        return core

    async def complete(self, prompt: list[int], max_tokens: int) -> float:
        """One completion of exactly so many tokens; the seconds it took its client."""
        began_s = time.monotonic()
        body = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True}
        async with self.rig.session.post(f"{self.rig.server.url}/v1/completions", json=body) as answer:
            assert answer.status == 200
            assert (await answer.json())["usage"]["completion_tokens"] == max_tokens
        return time.monotonic() - began_s


@pytest.fixture
async def reader(rig: Rig) -> AsyncIterator[Reader]:
    settings = EngineSettings(url=rig.server.url, token_file=rig.server.token_file, timeout_s=30.0)
    async with Connections(settings) as connections:
        yield Reader(rig, EngineClient.over(connections.admin, settings))


async def test_every_request_of_a_known_load_is_recorded_once_over_many_readings(reader: Reader) -> None:
    before = await reader.drain()
    source = random.Random(7)
    sent = [(source.randint(3, 200), source.randint(1, 24)) for _ in range(80)]
    prompts = [[source.randrange(8, 500) for _ in range(length)] for length, _ in sent]
    asked = asyncio.gather(*(reader.complete(p, tokens) for p, (_, tokens) in zip(prompts, sent, strict=True)))
    while not asked.done():
        await reader.read()
        await asyncio.sleep(0.1)
    took_s = await asked
    # A request leaves its record at the step after its last.
    took_s += [await reader.complete([9, 10, 11], 2) for _ in range(3)]
    after = await reader.core()
    sent += [(3, 2)] * 2  # the last one may still be without

    records = reader.records[: len(sent)]
    assert Counter((r.prompt_tokens, r.output_tokens) for r in records) == Counter(sent)
    assert len(reader.records) - len(sent) in (0, 1)
    assert reader.lost == 0
    assert sum(r.prompt_tokens + r.output_tokens for r in records) == sum(map(sum, sent))
    assert after.admitted is not None
    assert before.admitted is not None
    assert after.admitted - before.admitted == 83
    assert {r.reason for r in records} == {"length"}
    for record in records:
        assert record.ttft_s is not None
        assert 0 <= record.queue_s <= record.ttft_s <= record.e2e_s <= max(took_s)
        assert (record.tpot_s is None) == (record.output_tokens < 2)


async def test_the_steps_hold_every_token_that_was_computed(reader: Reader) -> None:
    before = (await reader.drain()).steps
    source = random.Random(11)
    prompts = [[source.randrange(8, 500) for _ in range(64)] for _ in range(20)]
    await asyncio.gather(*(reader.complete(prompt, 10) for prompt in prompts))
    after = (await reader.core()).steps
    assert before is not None
    assert after is not None
    added = after.since(before)
    assert added is not None
    # The last token of a request is never computed upon; random prompts of two blocks hit nothing.
    assert added.tokens == 20 * (64 + 10 - 1)
    assert added.budget_tokens == added.n * 2048
    assert added.seconds > 0


def _command(pid: int) -> str:
    """vLLM names its processes by their job."""
    return Path(f"/proc/{pid}/cmdline").read_text()


async def test_the_process_named_is_the_engine_cores(reader: Reader) -> None:
    runtime: EngineRuntime = await reader.client.runtime()
    (core,) = runtime.cores
    assert core.pid is not None
    assert core.pid != reader.rig.server.pid
    assert os.getpgid(core.pid) == os.getpgid(reader.rig.server.pid)
    assert "EngineCore" in _command(core.pid)
    assert core.visible_devices == os.environ.get("CUDA_VISIBLE_DEVICES")


async def test_the_pools_bytes_and_what_is_off_are_told(reader: Reader) -> None:
    core = await reader.core()
    assert core.kv_pool_bytes == 4096 * BLOCK_BYTES
    assert (core.real_tokens, core.allocator_reserved_bytes, core.hot_blocks) == (None, None, None)
    assert core.degraded == ()


async def test_the_hot_and_cold_blocks_are_counted_while_the_tiers_are_on(reader: Reader) -> None:
    runtime = await reader.client.runtime()
    await reader.client.set_knobs(runtime, {"hot_cache_ratio": 0.3}, 120)
    source = random.Random(13)
    prompt = [source.randrange(8, 500) for _ in range(320)]
    for _ in range(3):
        await reader.complete(prompt, 2)
    core = await reader.core()
    assert core.hot_blocks == 0  # nothing was evicted, so nothing had to be kept
    assert core.cold_blocks is not None
    assert core.cold_blocks >= 10
    await reader.rig.reset()
    assert (await reader.core()).hot_blocks is None
