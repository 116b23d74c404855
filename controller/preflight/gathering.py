"""Taking the picture that the checks look at: vLLM's metrics and version, the plugin, the GPUs, the clock.

Belongs here: asking each of them once, with a deadline. Never: a judgement; what is not there raises nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from controller import clock as system_clock
from controller.engine.client import EngineClient
from controller.engine.connections import Connections
from controller.preflight import kernel_clock
from controller.preflight.surroundings import EngineSeen, GpusSeen, Roots, Surroundings
from controller.sensors.nvml import NvmlSensor
from controller.sensors.vllm.parse import Parser
from controller.sensors.vllm.scrape import fetch
from controller.settings import EngineSettings, Settings
from domain.errors import GovernorError, RecoverableError
from domain.readings.vllm import VllmReading
from domain.runtime import EngineRuntime
from policies.profiles import of_engine

RATE_OVER_S = 2.0
"""Between two scrapes, where nobody else measured the request rate."""
CACHE_CONFIG = "vllm:cache_config_info"

SeeGpus = Callable[[EngineSeen], Awaitable[GpusSeen]]
"""Takes what is seen of the engine: the devices that count are the engine's."""


async def gather(settings: Settings, see_gpus: SeeGpus, roots: Roots | None = None) -> Surroundings:
    """The picture. Raises SettingsError where the engine's certificates cannot be used."""
    async with Connections(settings.engine) as connections:
        engine = await _engine(connections, settings.engine)
    return Surroundings(
        settings,
        system_clock.now().wall,
        engine,
        await see_gpus(engine),
        kernel_clock.read(),
        roots or Roots(),
    )


async def measured(around: Surroundings) -> Surroundings:
    """With the request rate between two scrapes, where the GPUs have a rate to hold it against."""
    gpus, before = around.gpus.reading, around.engine.reading
    if gpus is None or before is None or of_engine(device.name for device in gpus.devices) is None:
        return around
    began_s = system_clock.now().monotonic_s
    await asyncio.sleep(RATE_OVER_S)
    async with Connections(around.settings.engine) as connections:
        after = (await _metrics(connections, around.settings.engine))[0]
    if after is None or after.requests_finished is None or before.requests_finished is None:
        return around
    over_s = system_clock.now().monotonic_s - began_s
    rate = max(0.0, after.requests_finished - before.requests_finished) / over_s
    seen = replace(around.engine, requests_per_s=rate, rate_over=f"{over_s:.2g} s")
    return replace(around, engine=seen)


async def see_gpus(settings: Settings, engine: EngineSeen) -> GpusSeen:
    """Through an NVML of one's own, let go of again."""
    visible = () if engine.runtime is None else tuple({core.visible_devices for core in engine.runtime.cores})
    nvml = NvmlSensor(settings.gpu)
    await nvml.open()
    try:
        reading = await nvml.read(*visible)
    except RecoverableError as error:
        return GpusSeen(problem=str(error))
    finally:
        await nvml.close()
    return GpusSeen(reading, absence=nvml.absence)


async def _engine(connections: Connections, settings: EngineSettings) -> EngineSeen:
    (reading, config, metrics_error), (runtime, runtime_error), version = await asyncio.gather(
        _metrics(connections, settings), _plugin(connections, settings), _version(connections, settings)
    )
    pool = config.get("kv_cache_memory_bytes", "")
    pool_bytes = float(pool) if pool.isdecimal() else None
    return EngineSeen(reading, metrics_error, config, runtime, runtime_error, version, pool_bytes)


async def _metrics(
    connections: Connections, settings: EngineSettings
) -> tuple[VllmReading | None, Mapping[str, str], GovernorError | None]:
    url = f"{settings.url}/metrics"
    try:
        text = await fetch(connections.vllm, url, settings.timeout_s)
        return Parser(url).parse(text), _labels(text), None
    except RecoverableError as error:
        return None, {}, error


def _labels(text: str) -> Mapping[str, str]:
    """Of the first engine core; all are configured alike."""
    line = next((one for one in text.splitlines() if one.startswith(f"{CACHE_CONFIG}{{")), None)
    if line is None:
        return {}
    try:
        (family,) = text_string_to_metric_families(f"{line}\n")
        return dict(family.samples[0].labels)
    except ValueError:
        return {}


async def _plugin(
    connections: Connections, settings: EngineSettings
) -> tuple[EngineRuntime | None, GovernorError | None]:
    """The plugin's statistics are not asked for: the first such call begins their collection in the engine."""
    try:
        return await EngineClient.over(connections.admin, settings).runtime(), None
    except RecoverableError as error:
        return None, error


async def _version(connections: Connections, settings: EngineSettings) -> str | None:
    try:
        async with connections.vllm.get(
            f"{settings.url}/version", timeout=aiohttp.ClientTimeout(total=settings.timeout_s)
        ) as answer:
            document = await answer.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return None
    version = document.get("version") if isinstance(document, Mapping) else None
    return None if version is None else str(version)
