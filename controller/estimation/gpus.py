"""The engine's GPUs as one: the fullest, the busiest, the sum.

Belongs here: figures over devices at one moment. Never: differences over time (energy.py and
trends.py have those).
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.estimation.cards import power_w
from controller.estimation.windows import Signals, largest, ratio
from domain.readings.engine import CoreStats, EngineStats
from domain.readings.gpu import GpuReading, GpusReading, MemoryApi
from domain.readings.vllm import VllmReading


class MemoryUse:
    """Bytes in use by one measure whichever NVML call gave them.

    v1 counts what the driver reserves as used. Where v2 was seen on a device its reserve is taken off v1's figure, so
    that a fallback from one to the other is no rise of use.
    """

    def __init__(self) -> None:
        self._reserved: dict[str, int] = {}

    def ratios(self, devices: Iterable[GpuReading], idle_bytes: float = 0.0) -> list[float]:
        """Use over total of each device that says, `idle_bytes` of each not counted."""
        found = (self._ratio(device, idle_bytes) for device in devices)
        return [value for value in found if value is not None]

    def used_bytes(self, device: GpuReading) -> int | None:
        """What is in use on one device, without the driver's reserve; None where it does not say."""
        memory = device.memory
        if memory is None:
            return None
        if memory.api is MemoryApi.V1:
            return memory.used_bytes - self._reserved.get(device.uuid, 0)
        if memory.reserved_bytes is not None:
            self._reserved[device.uuid] = memory.reserved_bytes
        return memory.used_bytes

    def _ratio(self, device: GpuReading, idle_bytes: float) -> float | None:
        used = self.used_bytes(device)
        if used is None or device.memory is None:
            return None
        return ratio(max(0.0, used - idle_bytes), device.memory.total_bytes)


def measures(reading: GpusReading | None, memory: MemoryUse) -> Signals:
    """What NVML says now; nothing without a fresh reading."""
    if reading is None:
        return {}
    devices = reading.devices
    activity = [d.sm_activity_ratio for d in devices if d.sm_activity_ratio is not None]
    return {
        "gpu_utilization_ratio": largest(*(d.utilization_ratio for d in devices)),
        "sm_activity_ratio": sum(activity) / len(activity) if activity else None,
        "gpu_memory_usage_ratio": largest(*memory.ratios(devices)),
        "bar1_usage_ratio": largest(*(ratio(d.bar1_used_bytes, d.bar1_total_bytes) for d in devices)),
        "gpu_temperature_c": largest(*(d.temperature_c for d in devices)),
        "gpu_power_w": _power_w(reading),
    }


def _power_w(reading: GpusReading) -> float | None:
    """Each card once: MIG instances repeat their card's. A part is not passed off as the whole."""
    cards = power_w(reading)
    known = [power for power in cards.values() if power is not None]
    return sum(known) if known and len(known) == len(cards) and not reading.lost else None


def effective_memory(
    gpus: GpusReading | None, memory: MemoryUse, stats: EngineStats | None, vllm: VllmReading | None
) -> float | None:
    """Memory of the fullest GPU without the idle part of vLLM's KV pool, which vLLM takes at its start and keeps.

    Which engine core runs on which GPU is not known: the least idle part of any is taken off.
    """
    if gpus is None or vllm is None:
        return None
    idle_bytes = 0.0 if vllm.asleep else _least_idle_bytes(stats, vllm)  # asleep the pool is given back
    return None if idle_bytes is None else largest(*memory.ratios(gpus.devices, idle_bytes))


def _least_idle_bytes(stats: EngineStats | None, vllm: VllmReading) -> float | None:
    idle: list[float] = []
    for core in stats.cores if stats is not None else ():
        usage = _usage(core, vllm)
        if core.kv_pool_bytes is None or usage is None:
            return None
        idle.append(core.kv_pool_bytes * (1.0 - min(1.0, usage)))
    return min(idle, default=None)


def _usage(core: CoreStats, vllm: VllmReading) -> float | None:
    own = next((e.kv_cache_usage_ratio for e in vllm.engines if e.engine == str(core.index)), None)
    return own if own is not None else vllm.kv_cache_usage_ratio
