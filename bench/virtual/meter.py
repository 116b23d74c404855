"""What vLLM's metrics and NVML would say, taken on the run's clock: the time stamps of vLLM itself are the machine's.

Belongs here: histograms with vLLM's bounds, counters, the emulated device as NVML would show it. Never: what the plugin
counts itself.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from bench.emulated_gpu.inprocess import InProcessEngine
from bench.emulated_gpu.power import PowerModel
from bench.sensors.exposition import VLLM_BOUNDS
from bench.virtual.device import Device
from bench.virtual.timeline import Served
from bench.virtual.workload import Ask
from domain.histogram import Histogram
from domain.readings.engine import EngineStats
from domain.readings.gpu import GpuReading, GpusReading
from domain.readings.vllm import EngineGauges, VllmReading
from domain.runtime import EngineRuntime
from domain.slo import Latency, Slo

LENGTH_BOUNDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, math.inf)
_LIKE_E2E = (Latency.QUEUE, Latency.INFERENCE)
"""vLLM gives all latencies of whole requests the same bounds."""


class Buckets:
    """A histogram that is still filling."""

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self._counts = [0] * len(self.bounds)
        self._total = 0.0

    def add(self, value: float) -> None:
        """One sample."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self._total += value

    def read(self) -> Histogram:
        """As it is now, cumulative."""
        return Histogram(self.bounds, tuple(map(float, accumulate(self._counts))), self._total)


@dataclass(slots=True)
class _Open:
    ask: Ask
    admitted_s: float | None = None
    first_s: float | None = None
    last_s: float = 0.0
    gaps_s: list[float] = field(default_factory=list)
    tokens: int = 0


class Meter:
    """Follows every request. The bounds of the objectives are among the histograms', as operators are advised."""

    def __init__(
        self,
        engine: InProcessEngine,
        device: Device,
        slos: Iterable[Slo],
        gpu_name: str,
        power: PowerModel | None = None,
    ) -> None:
        """`power` None: the device does not tell its power."""
        self._engine = engine
        self._device = device
        self._gpu_name = gpu_name
        self._power = power
        self._seen_energy_j = 0.0
        self.most_running = 0
        self._open: dict[str, _Open] = {}
        self.served: list[Served] = []
        self._buckets = {latency: Buckets(_bounds(latency, slos)) for latency in Latency}
        self._prompts, self._answers = Buckets(LENGTH_BOUNDS), Buckets(LENGTH_BOUNDS)
        self._prompt_tokens = self._answer_tokens = 0
        self._seen_busy_s, self._seen_at_s = 0.0, engine.clock.now_s()
        self._watch_admissions()

    def _watch_admissions(self) -> None:
        """A request's first step is where the device is given it."""
        executor, clock, opened = self._engine.executor, self._engine.clock, self._open
        inner = executor.execute_model

        def execute_model(scheduled: Any, *args: Any, **kwargs: Any) -> Any:
            for new in scheduled.scheduled_new_reqs:
                one = opened.get(new.req_id)
                if one is not None and one.admitted_s is None:
                    one.admitted_s = clock.now_s()
            return inner(scheduled, *args, **kwargs)

        executor.execute_model = execute_model

    def arrived(self, ask: Ask) -> None:
        """A request entered the engine. `ask.at_s` is on the engine's clock."""
        self._open[ask.request_id] = _Open(ask)

    def took_step(self, new_tokens: Mapping[str, list[int]]) -> None:
        """A step ended and gave these tokens."""
        now_s = self._engine.clock.now_s()
        self.most_running = max(self.most_running, len(self._engine.scheduler.running))
        for request_id, tokens in new_tokens.items():
            one = self._open[request_id]
            if one.first_s is None:
                one.first_s = now_s
                self._buckets[Latency.TTFT].add(now_s - one.ask.at_s)
            else:
                gap_s = now_s - one.last_s
                one.gaps_s.append(gap_s)
                self._buckets[Latency.ITL].add(gap_s)
            one.last_s = now_s
            one.tokens += len(tokens)
            self._answer_tokens += len(tokens)
            if request_id in self._engine.finish_reasons:
                self._finish(self._open.pop(request_id), now_s)

    def _finish(self, one: _Open, now_s: float) -> None:
        del self._engine.finish_reasons[one.ask.request_id]
        admitted_s = one.ask.at_s if one.admitted_s is None else one.admitted_s
        queue_s, e2e_s = admitted_s - one.ask.at_s, now_s - one.ask.at_s
        self._buckets[Latency.E2E].add(e2e_s)
        self._buckets[Latency.QUEUE].add(queue_s)
        self._buckets[Latency.INFERENCE].add(now_s - admitted_s)
        prompt_tokens = len(one.ask.prompt)
        self._prompts.add(prompt_tokens)
        self._answers.add(one.tokens)
        self._prompt_tokens += prompt_tokens
        ttft_s = (one.first_s or now_s) - one.ask.at_s
        gaps_s = sorted(one.gaps_s)
        self.served.append(
            Served(
                request_id=one.ask.request_id,
                at_s=one.ask.at_s,
                queue_s=queue_s,
                ttft_s=ttft_s,
                e2e_s=e2e_s,
                worst_gap_s=gaps_s[-1] if gaps_s else 0.0,
                p95_gap_s=gaps_s[math.ceil(0.95 * len(gaps_s)) - 1] if gaps_s else 0.0,
                prompt_tokens=prompt_tokens,
                answer_tokens=one.tokens,
            )
        )

    def latencies(self) -> dict[Latency, Histogram]:
        """Since the start of the run."""
        return {latency: buckets.read() for latency, buckets in self._buckets.items()}

    def vllm(self, runtime: EngineRuntime, stats: EngineStats, refused: int) -> VllmReading:
        """As a scrape of `/metrics` would read. The plugin counts much of what vLLM counts as well."""
        running, waiting = runtime.running, runtime.waiting
        usage = float(self._engine.scheduler.kv_cache_manager.usage)
        core = stats.cores[0]
        return VllmReading(
            running=running,
            waiting=waiting,
            deferred=0.0,
            kv_cache_usage_ratio=usage,
            asleep=False,
            preemptions=core.preemptions,
            requests_finished=len(self.served),
            requests_failed=0.0,
            requests_rejected=refused,
            prompt_tokens=self._prompt_tokens,
            generation_tokens=self._answer_tokens,
            prefix_cache_queries=core.cache_prompt_tokens,
            prefix_cache_hits=core.cache_hit_tokens,
            latencies=self.latencies(),
            prompt_lengths=self._prompts.read(),
            output_lengths=self._answers.read(),
            engines=(EngineGauges("0", running, waiting, usage),),
        )

    def gpus(self) -> GpusReading:
        """The device as NVML would show it: share of time in which it computed, power, energy. Memory is not played."""
        now_s, busy_s = self._engine.clock.now_s(), self._device.busy_s
        passed_s, worked_s = now_s - self._seen_at_s, busy_s - self._seen_busy_s
        self._seen_at_s, self._seen_busy_s = now_s, busy_s
        share = min(1.0, worked_s / passed_s) if passed_s > 0 else None
        reading = GpuReading(0, "GPU-virtual", self._gpu_name, utilization_ratio=share)
        if self._power is not None:
            energy_j = self._power.energy_j(now_s, busy_s, self._device.computing_s)
            watts = (energy_j - self._seen_energy_j) / passed_s if passed_s > 0 else None
            self._seen_energy_j = energy_j
            reading = replace(reading, power_w=watts, power_limit_w=self._power.cap_w, energy_j=energy_j)
        return GpusReading((reading,))


def _bounds(latency: Latency, slos: Iterable[Slo]) -> tuple[float, ...]:
    like = Latency.E2E if latency in _LIKE_E2E else latency
    return (*sorted({*VLLM_BOUNDS[like], *(slo.bound_s for slo in slos if slo.latency is latency)}), math.inf)
