"""All sensors at once: one Snapshot a tick.

Belongs here: which sensors there are, that one failing does not take the others with it. Never: how a source is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from controller import clock as system_clock
from controller.engine.link import EngineLink
from controller.sensors.engine import EngineStatsSensor
from controller.sensors.nvml import NvmlSensor
from controller.sensors.prometheus import PrometheusSensor
from controller.sensors.vllm import VllmSensor
from controller.watch import Condition
from domain.errors import EngineUnreachable, RecoverableError
from domain.readings.engine import EngineStats
from domain.readings.gpu import GpusReading
from domain.readings.vllm import VllmReading
from domain.runtime import EngineRuntime
from domain.snapshot import Snapshot, Source

T = TypeVar("T")

NONE = ""
"""CUDA_VISIBLE_DEVICES of a process that sees no GPU."""


class Sensing:
    """Reads every source at the same time. Each sensor has its own deadline."""

    def __init__(
        self,
        clock: Callable[[], system_clock.Now],
        link: EngineLink,
        metrics: VllmSensor,
        stats: EngineStatsSensor,
        gpus: NvmlSensor,
        prometheus: PrometheusSensor,
    ) -> None:
        self._clock = clock
        self._link = link
        self._metrics = metrics
        self._stats = stats
        self._gpus = gpus
        self._prometheus = prometheus
        self._runtime: EngineRuntime | None = None
        self._visible: tuple[str | None, ...] | None = None
        self._serves = False
        self._silent: set[Source] = set()
        self._conditions = {source: Condition(source.value) for source in Source}

    async def snapshot(self) -> Snapshot:
        """Read everything. Raises nothing a source can cause."""
        now = self._clock()
        problems: dict[Source, str] = {}
        self._silent = set()
        met = self._runtime
        link = asyncio.ensure_future(self._engine_runtime(problems))
        metrics = asyncio.ensure_future(self._ask(Source.METRICS, self._metrics.read(), problems))
        reading, runtime, engine, gpus, windows = await asyncio.gather(
            metrics,
            link,
            self._ask(Source.STATS, self._engine_stats(met), problems),
            self._ask(Source.GPU, self._gpu_readings(link, metrics), problems),
            self._ask(Source.PROMETHEUS, self._prometheus.read(), problems),
        )
        self._runtime = runtime
        self._serves |= reading is not None
        return Snapshot(
            now.monotonic_s,
            now.wall,
            vllm=reading,
            runtime=runtime,
            engine=engine,
            gpus=gpus,
            prometheus=windows,
            problems=problems,
            silent=frozenset(self._silent),
            took_s=self._clock().monotonic_s - now.monotonic_s,
        )

    async def _engine_runtime(self, problems: dict[Source, str]) -> EngineRuntime | None:
        runtime, problem = await self._ask(Source.RUNTIME, self._link.read(), problems) or (None, None)
        if problem is not None:
            problems[Source.RUNTIME] = problem
            if self._link.silent:
                self._silent.add(Source.RUNTIME)
        return runtime

    async def _engine_stats(self, met: EngineRuntime | None) -> EngineStats | None:
        return None if met is None else await self._stats.read()

    async def _gpu_readings(
        self, link: Awaitable[EngineRuntime | None], metrics: Awaitable[VllmReading | None]
    ) -> GpusReading | None:
        """Those of the engine, as it said last. Before it ever did, this tick's answer is waited for, and none are
        read as long as no engine serves: the neighbours' GPUs are not the engine's.
        """
        met = self._runtime if self._visible is not None else await link
        if met is not None:
            self._visible = tuple(sorted({core.visible_devices for core in met.cores}, key=str))
        if self._visible is not None:
            return await self._gpus.read(*self._visible)
        return await self._gpus.read(*(() if self._serves or await metrics is not None else (NONE,)))

    async def _ask(self, source: Source, call: Coroutine[Any, Any, T], problems: dict[Source, str]) -> T | None:
        condition = self._conditions[source]
        try:
            reading = await call
        except RecoverableError as error:
            problems[source] = str(error)
            if isinstance(error, EngineUnreachable):
                self._silent.add(source)
        except Exception as error:  # a broken library must not take the tick with it
            problems[source] = f"cannot be read: {type(error).__name__}: {error}"
        else:
            partly = "; ".join(reading.problems) if isinstance(reading, GpusReading) else ""
            if partly:
                problems[source] = partly
            condition.report(partly or None)
            return reading
        condition.report(problems[source])
        return None
