"""The picture that the checks look at, taken from an engine over real HTTP, and from this machine's kernel."""

from __future__ import annotations

import ctypes
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from bench.emulated_nvml import cards
from controller.preflight import gathering, kernel_clock
from controller.preflight.surroundings import EngineSeen, GpusSeen
from controller.settings import Settings
from domain.errors import BadReading, EngineUnreachable
from tests.fake_engine import FakeEngine
from tests.nvml import NvmlRig, scripted_nvml

CONFIG = 'vllm:cache_config_info{enable_prefix_caching="True",engine="0",kv_cache_memory_bytes="1024"} 1.0\n'


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    fake = FakeEngine()
    await fake.server.start_server()
    yield fake
    await fake.server.close()


def settings(url: str) -> Settings:
    return Settings(engine={"url": url})


async def no_gpus(_engine: EngineSeen) -> GpusSeen:
    return GpusSeen(absence="none")


async def test_metrics_plugin_and_cache_are_read_and_nothing_is_switched_on_in_the_engine(engine: FakeEngine) -> None:
    text = 'vllm:num_requests_running{engine="0"} 3\n' + CONFIG
    engine.metrics_answer = lambda: web.Response(text=text)
    seen = (await gathering.gather(settings(engine.url), no_gpus)).engine
    assert seen.reading is not None
    assert seen.reading.running == 3
    assert seen.cache_config["enable_prefix_caching"] == "True"
    assert seen.pool_bytes == 1024
    assert seen.runtime is not None
    assert (seen.metrics_error, seen.runtime_error) == (None, None)
    assert engine.stats_queries == engine.leases == engine.patches == engine.purges == []


async def test_an_engine_that_is_away_is_told_and_raises_nothing() -> None:
    seen = (await gathering.gather(settings("http://127.0.0.1:9"), no_gpus)).engine
    assert isinstance(seen.metrics_error, EngineUnreachable)
    assert isinstance(seen.runtime_error, EngineUnreachable)
    assert (seen.reading, seen.runtime, seen.version) == (None, None, None)


async def test_metrics_without_engine_data_are_told_beside_a_plugin_that_answers(engine: FakeEngine) -> None:
    engine.metrics_answer = lambda: web.Response(text="python_gc_objects_collected_total 1\n")
    seen = (await gathering.gather(settings(engine.url), no_gpus)).engine
    assert isinstance(seen.metrics_error, BadReading)
    assert seen.runtime is not None


async def test_the_rate_is_what_finished_between_two_scrapes(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "RATE_OVER_S", 0.0)
    with scripted_nvml(tmp_path) as nvml:
        rig = NvmlRig(nvml)
        rig.show(cards.a100_80g())
        around = await gathering.gather(settings(engine.url), no_gpus)
        assert await gathering.measured(around) == around, "nothing to hold it against without a GPU"
        around = replace(around, gpus=await gathering.see_gpus(around.settings, around.engine))
        assert around.gpus.reading is not None
        rate = (await gathering.measured(around)).engine.requests_per_s
        assert not nvml.held, "NVML was let go of again"
        await rig.sensor.close()
    assert rate is not None
    assert rate > 10, "the engine finishes ten requests from one scrape to the next, in well under a second"


def test_this_kernels_clock_is_read_without_being_set() -> None:
    found = kernel_clock.read()
    assert ctypes.sizeof(ctypes.c_long) == 8
    assert found is None or 0 <= found.max_error_s < 3600
