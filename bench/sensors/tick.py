"""CPU time of one tick's whole sensing, in this process, against a vLLM that is played by another one.

Belongs here: the sensors and the estimator as the daemon puts them together, the clock, what is timed. Never: what they
do.

CPU time is the process's own, all threads; a tick is a second on the clock that sensors and estimator see, so that
what they do every few seconds is among it. Between two ticks the process sleeps, as the daemon does: code and data
have left the caches when the next one begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import controller.app  # noqa: F401  # its modules are in the daemon's memory, so they are in the collector's way here too
from bench.emulated_nvml import cards
from bench.emulated_nvml.build import NoLibrary
from bench.emulated_nvml.inprocess import loaded
from bench.emulated_nvml.script import Machine
from bench.sensors.loads import OBJECTIVES
from bench.setup import places
from controller.clock import Now
from controller.engine.client import EngineClient
from controller.engine.connections import Connections
from controller.engine.link import EngineLink
from controller.estimation import Estimator
from controller.sensing import Sensing
from controller.sensors.engine import EngineStatsSensor
from controller.sensors.nvml import NvmlSensor
from controller.sensors.prometheus import PrometheusSensor
from controller.sensors.vllm import VllmSensor
from controller.settings import EngineSettings, GpuSettings, PrometheusSettings
from domain.snapshot import Snapshot
from domain.view import View

METRICS = places.ROOT / "tests" / "field" / "data" / "metrics-0.32.txt"
RECORDS = (200, 20)
"""Requests that finish in a tick, in two runs: a fast engine, which is the headline, and an ordinary one."""
WARM_UP_TICKS = 10
START_LIMIT_S = 60.0
PATIENCE_S = 30.0
"""Deadline of every read: a machine that is busy with other work is not what is measured."""


class TickError(Exception):
    """The played vLLM cannot be used; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU milliseconds, one entry a tick: of whole ticks, and of the parts by name, each read alone."""

    records: int
    whole_ms: tuple[float, ...]
    parts_ms: dict[str, tuple[float, ...]]
    metrics_bytes: int
    gpus: str


class SteppedClock:
    """A second later at each `step`; the time of the day is the real one, as in the records."""

    def __init__(self) -> None:
        self._now = Now(1000.0, datetime.now(UTC))

    def __call__(self) -> Now:
        return self._now

    def monotonic_s(self) -> float:
        return self._now.monotonic_s

    def step(self) -> None:
        self._now = Now(self._now.monotonic_s + 1.0, datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class _Sensors:
    clock: SteppedClock
    link: EngineLink
    metrics: VllmSensor
    stats: EngineStatsSensor
    gpus: NvmlSensor
    sensing: Sensing


async def measure(records: int, ticks: int, pause_s: float) -> Cost:
    """With so many request records a tick: whole ticks first, then the parts alone. Raises TickError."""
    with _nvml() as gpus:
        async with _played(records) as url, _sensors(url) as sensors:
            whole_ms = await _whole(sensors, records, ticks, pause_s)
            parts_ms = await _parts(sensors, ticks, pause_s)
    return Cost(records, whole_ms, parts_ms, METRICS.stat().st_size, gpus)


async def _whole(sensors: _Sensors, records: int, ticks: int, pause_s: float) -> tuple[float, ...]:
    estimator, found = Estimator(1.0), []
    for number in range(WARM_UP_TICKS + ticks):
        sensors.clock.step()
        started_s = time.process_time()
        snapshot = await sensors.sensing.snapshot()
        view = estimator.update(snapshot, OBJECTIVES)
        found.append((time.process_time() - started_s) * 1e3)
        if number >= WARM_UP_TICKS:
            _check(snapshot, view, records)
        await asyncio.sleep(pause_s)
    return tuple(found[WARM_UP_TICKS:])


async def _parts(sensors: _Sensors, ticks: int, pause_s: float) -> dict[str, tuple[float, ...]]:
    reads: dict[str, Callable[[], Awaitable[object]]] = {
        "metrics": sensors.metrics.read,
        "runtime and lease": sensors.link.read,
        "statistics": sensors.stats.read,
        "NVML": lambda: sensors.gpus.read(),
    }
    found: dict[str, list[float]] = {name: [] for name in (*reads, "estimator")}
    estimator = Estimator(1.0)
    for _ in range(ticks):
        sensors.clock.step()
        for name, read in reads.items():
            started_s = time.process_time()
            await read()
            found[name].append((time.process_time() - started_s) * 1e3)
        snapshot = await sensors.sensing.snapshot()
        started_s = time.process_time()
        estimator.update(snapshot, OBJECTIVES)
        found["estimator"].append((time.process_time() - started_s) * 1e3)
        await asyncio.sleep(pause_s)
    return {name: tuple(values) for name, values in found.items()}


def _check(snapshot: Snapshot, view: View, records: int) -> None:
    """A sensor that fails is cheap."""
    if snapshot.problems:
        raise TickError(f"cannot time the sensors: {'; '.join(snapshot.problems.values())}")
    if snapshot.engine is None or len(snapshot.engine.records) != records or view.requests_per_s is None:
        raise TickError("cannot time the sensors: the played vLLM gives less than a real one")


@contextlib.asynccontextmanager
async def _sensors(url: str) -> AsyncIterator[_Sensors]:
    clock, engine = SteppedClock(), EngineSettings(url=url, timeout_s=PATIENCE_S)
    async with Connections(engine) as connections:
        client = EngineClient.over(connections.admin, engine)
        link = EngineLink(client, engine.lease_s, {})
        metrics = VllmSensor(connections.vllm, engine.url, engine.timeout_s, clock)
        stats, gpus = EngineStatsSensor(client, clock.monotonic_s), NvmlSensor(GpuSettings(timeout_s=PATIENCE_S), clock)
        await gpus.open()
        prometheus = PrometheusSensor(PrometheusSettings(), clock)
        sensing = Sensing(clock, link, metrics, stats, gpus, prometheus)
        try:
            yield _Sensors(clock, link, metrics, stats, gpus, sensing)
        finally:
            await gpus.close()


@contextlib.contextmanager
def _nvml() -> Iterator[str]:
    """One H100 by the scripted NVML, which reads its script at every call and so costs more than a driver's."""
    with tempfile.TemporaryDirectory(prefix="bench-nvml-") as folder, contextlib.ExitStack() as stack:
        try:
            library = stack.enter_context(loaded(Path(folder) / "script"))
        except NoLibrary as error:
            yield str(error)
            return
        library.show(Machine([cards.h100_pcie()]))
        yield "one H100, scripted"


@contextlib.asynccontextmanager
async def _played(records: int) -> AsyncIterator[str]:
    """Address of a vLLM that another process plays."""
    command = ("-m", "bench.sensors.double", "--metrics", str(METRICS), "--records", str(records))
    child = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=places.ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(START_LIMIT_S):
            line = (await child.stdout.readline()).decode().strip() if child.stdout else ""
        if not line:
            raise TickError("cannot time the sensors: the process that plays vLLM ended at once")
        yield line
    except TimeoutError as error:
        raise TickError("cannot time the sensors: the process that plays vLLM does not start") from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
