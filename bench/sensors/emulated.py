"""The whole way once: a real vLLM on an emulated GPU, its own histograms, and latencies that others timed.

Belongs here: the server, the load, and the two truths: the client's times and the engine's records per request. Never:
how a quantile is made of buckets.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from bench.emulated_gpu.plugin_path import PLUGIN_NAME, write_plugin
from bench.load import Load, LoadOptions
from bench.sensors.exposition import FAMILIES, with_bound
from bench.sensors.truth import Error, compare
from bench.server import VllmServer
from bench.server_options import VllmOptions
from bench.setup import places
from controller.engine.client import EngineClient
from controller.estimation import Estimator
from controller.sensors.engine import EngineStatsSensor
from controller.sensors.vllm import VllmSensor
from domain.histogram import Histogram
from domain.readings.engine import RequestRecord
from domain.slo import Latency, Slo
from domain.snapshot import Snapshot

EXECUTOR = "bench.emulated_gpu.executor.EmulatedGpuExecutor"
OBJECTIVE = Slo(Latency.E2E, percentile=99, bound_s=0.76)
CLIENTS = 12
WARM_UP_S = 3.0
TICK_S = 1.0


@dataclass(frozen=True, slots=True)
class Emulated:
    """End-to-end latency estimated from vLLM's buckets, beside the client's times and the engine's records."""

    client: Error | None
    records: Error | None


async def measure(load_s: float, *, on_bound: bool) -> Emulated:
    """One run. Raises ServerError or LoadError."""
    with tempfile.TemporaryDirectory(prefix="bench-sensors-") as name:
        folder = Path(name)
        server = VllmServer(folder, _options(folder, on_bound=on_bound))
        async with server, aiohttp.ClientSession() as session:
            model = server.options.served_name
            async with Load(server.url, model, LoadOptions(clients=CLIENTS, seed=2)):
                await asyncio.sleep(WARM_UP_S)
            client = EngineClient(session, server.url, server.token_file, 5.0)
            stats, sensor = EngineStatsSensor(client), VllmSensor(session, server.url, 5.0)
            await _records(stats)
            estimator, records = Estimator(TICK_S), list[RequestRecord]()
            estimator.update(await _snapshot(sensor), (OBJECTIVE,))
            async with Load(server.url, model, LoadOptions(clients=CLIENTS, seed=3)) as load:
                until_s = time.monotonic() + load_s
                while time.monotonic() < until_s:
                    await asyncio.sleep(TICK_S)
                    estimator.update(await _snapshot(sensor), (OBJECTIVE,))
                    records += await _records(stats)
            view = estimator.update(await _snapshot(sensor), (OBJECTIVE,))
            records += await _records(stats)
            histogram = view.latencies[Latency.E2E]
            timed = [one.end_s - one.start_s for one in reversed(load.records(0.0, math.inf)) if one.ok]
            return Emulated(_against(timed, histogram), _against([one.e2e_s for one in records], histogram))


def _options(folder: Path, *, on_bound: bool) -> VllmOptions:
    plugins = write_plugin(folder / "plugins")
    paths = os.pathsep.join([str(places.PLUGIN_OVERLAY), str(plugins), str(places.ROOT)])
    family = FAMILIES[OBJECTIVE.latency][1]
    bounds = json.dumps({family: with_bound(OBJECTIVE.latency, OBJECTIVE.bound_s)})
    return VllmOptions(
        executor=EXECUTOR,
        itl_buckets_s=(),
        extra_args=("--custom-histogram-buckets", bounds) if on_bound else (),
        extra_env={"PYTHONPATH": paths, "VLLM_PLUGINS": f"governor,{PLUGIN_NAME}"},
    )


async def _snapshot(sensor: VllmSensor) -> Snapshot:
    return Snapshot(time.monotonic(), datetime.now(UTC), vllm=await sensor.read())


async def _records(stats: EngineStatsSensor) -> list[RequestRecord]:
    reading = await stats.read()
    return [] if reading is None else [one for one in reading.records if one.reason == "length"]


def _against(timed_s: Sequence[float], histogram: Histogram) -> Error | None:
    """The histogram holds the newest of what was timed: all of it, unless the estimator took a shorter window."""
    number = int(histogram.samples)
    return compare(timed_s[-number:], histogram, OBJECTIVE.bound_s) if 0 < number <= len(timed_s) else None
