"""Small builders of readings and snapshots for tests. Time of the day goes on with the monotonic clock."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from domain.histogram import Histogram
from domain.readings.engine import CoreStats, EngineStats, RequestRecord, StepSums
from domain.readings.gpu import GpuMemory, GpuReading, GpusReading, MemoryApi
from domain.readings.vllm import VllmReading
from domain.snapshot import Snapshot

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
MIB = 1 << 20
GIB = 1 << 30


def snapshot(now_s: float, vllm: VllmReading | None = None, slept_s: float = 0.0, **changes: Any) -> Snapshot:
    """`slept_s`: what the wall clock is ahead because the machine was suspended."""
    return Snapshot(now_s, BEGAN + timedelta(seconds=now_s + slept_s), vllm, **changes)


def histogram(below: float, above: float = 0.0, bound_s: float = 0.05, mean_s: float = 0.01) -> Histogram:
    """Cumulative: `below` samples at or under the bound, `above` over it."""
    return Histogram((bound_s, math.inf), (below, below + above), (below + above) * mean_s)


def stats(*cores: CoreStats, records: tuple[RequestRecord, ...] = ()) -> EngineStats:
    return EngineStats(cores or (CoreStats(0, "boot-a"),), records)


def step_sums(**changes: float) -> StepSums:
    """Nothing but what is named."""
    values: dict[str, Any] = dict.fromkeys(StepSums.__slots__, 0)
    return StepSums(**(values | changes))


def record(finished_s: float, **changes: Any) -> RequestRecord:
    """A request that ended `finished_s` after the tests' beginning, in 0.4 s."""
    values: dict[str, Any] = {
        "reason": "stop",
        "prompt_tokens": 100,
        "output_tokens": 20,
        "hit_tokens": 0,
        "preemptions": 0,
        "queue_s": 0.01,
        "ttft_s": 0.1,
        "e2e_s": 0.4,
        "tpot_s": 0.015,
    }
    return RequestRecord(finished_at=BEGAN.timestamp() + finished_s, **(values | changes))


def gpu(uuid: str = "GPU-a", **changes: Any) -> GpuReading:
    values: dict[str, Any] = {"index": 0, "name": "A100"}
    return GpuReading(uuid=uuid, **(values | changes))


def gpus(*devices: GpuReading, **changes: Any) -> GpusReading:
    return GpusReading(devices, **changes)


def memory(used_bytes: float, reserved_bytes: float | None = 0, total_bytes: float = 80 * GIB) -> GpuMemory:
    """As v2 gives it; without `reserved_bytes` as v1 does."""
    free = total_bytes - used_bytes - (reserved_bytes or 0)
    reserved = None if reserved_bytes is None else int(reserved_bytes)
    api = MemoryApi.V1 if reserved is None else MemoryApi.V2
    return GpuMemory(int(total_bytes), int(used_bytes), int(free), reserved, api)
