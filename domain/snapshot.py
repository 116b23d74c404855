"""One tick's readings, taken once and never changed. Unknown is None, never 0.

Belongs here: what the sensors return. Never: rates or windows (the estimator makes those into a View).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from domain.histogram import Histogram
from domain.runtime import EngineRuntime
from domain.slo import Latency


@dataclass(frozen=True, slots=True)
class VllmReading:
    """vLLM's `/metrics`. Gauges as they are now, counters since the engine's boot."""

    running: float | None = None
    kv_cache_usage_ratio: float | None = None
    """Of the fullest engine core: an average would hide it."""
    preemptions: float | None = None
    requests_finished: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    latencies: Mapping[Latency, Histogram] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One NVML device. None where the device or driver does not say."""

    index: int
    uuid: str
    name: str
    utilization_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All readings of one tick. `now_s` is monotonic; `wall` is for people to read."""

    now_s: float
    wall: datetime
    vllm: VllmReading | None
    runtime: EngineRuntime | None
    gpus: tuple[GpuReading, ...] | None
