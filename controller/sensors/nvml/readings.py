"""One device's reading: what changes is asked at every tick, what hardly does is asked once and kept.

Belongs here: NVML's calls by field, units turned into base units. Never: which devices, rates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import pynvml

from controller.sensors.nvml import gpm
from controller.sensors.nvml.calls import NOT_SUPPORTED, UNIFIED_MEMORY, Answers
from controller.sensors.nvml.devices import Device
from domain.readings.gpu import GpuMemory, GpuProcess, GpuReading, MemoryApi

# nvml.h: nvmlClocksEventReasons, by the names that nvidia-smi gives them. Literal: older nvidia-ml-py lacks some.
THROTTLE_REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}


@dataclass(frozen=True, slots=True)
class Part:
    """Some fields of a reading, and why others of them are None."""

    values: Mapping[str, Any]
    unknown: Mapping[str, str]


def facts(device: Device) -> Part:
    """What hardly ever changes. Raises DeviceLost, LibraryLost."""
    card, answers = device.card.handle, Answers()
    limit = answers.ask("power_limit_w", partial(pynvml.nvmlDeviceGetEnforcedPowerLimit, card))
    values = {
        "power_limit_w": None if limit is None else limit / 1000,
        "ecc_enabled": _current(answers.ask("ecc_enabled", partial(pynvml.nvmlDeviceGetEccMode, card))),
        "mig_enabled": _current(answers.ask("mig_enabled", partial(pynvml.nvmlDeviceGetMigMode, card))),
        "pcie_generation": answers.ask("pcie_generation", partial(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, card)),
        "pcie_width": answers.ask("pcie_width", partial(pynvml.nvmlDeviceGetCurrPcieLinkWidth, card)),
        "nvlinks_active": _nvlinks_active(card, answers),
    }
    answers.require_one()
    return Part(values, MappingProxyType(answers.unknown))


def of_card(device: Device) -> Part:
    """What belongs to the card as a whole, now. Raises DeviceLost, LibraryLost."""
    card, answers = device.card.handle, Answers()
    bar1 = answers.ask("bar1_total_bytes", partial(pynvml.nvmlDeviceGetBAR1MemoryInfo, card))
    if bar1 is None:
        answers.unknown["bar1_used_bytes"] = answers.unknown["bar1_total_bytes"]

    def number(name: str, factor: float, *calls: Callable[[], Any]) -> float | None:
        got = answers.ask(name, *calls)
        return None if got is None else got * factor

    values = {
        "power_w": number("power_w", 1e-3, partial(pynvml.nvmlDeviceGetPowerUsage, card)),
        "energy_j": number("energy_j", 1e-3, partial(pynvml.nvmlDeviceGetTotalEnergyConsumption, card)),
        "temperature_c": number(
            "temperature_c",
            1.0,
            partial(pynvml.nvmlDeviceGetTemperatureV, card, pynvml.NVML_TEMPERATURE_GPU),
            partial(pynvml.nvmlDeviceGetTemperature, card, pynvml.NVML_TEMPERATURE_GPU),
        ),
        "sm_clock_hz": number("sm_clock_hz", 1e6, partial(pynvml.nvmlDeviceGetClockInfo, card, pynvml.NVML_CLOCK_SM)),
        "memory_clock_hz": number(
            "memory_clock_hz", 1e6, partial(pynvml.nvmlDeviceGetClockInfo, card, pynvml.NVML_CLOCK_MEM)
        ),
        "throttle_reasons": _throttle_reasons(card, answers),
        "ecc_corrected": _ecc_errors(card, "ecc_corrected", pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, answers),
        "ecc_uncorrected": _ecc_errors(card, "ecc_uncorrected", pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, answers),
        "bar1_total_bytes": None if bar1 is None else bar1.bar1Total,
        "bar1_used_bytes": None if bar1 is None else bar1.bar1Used,
    }
    answers.require_one()
    return Part(values, answers.unknown)


def reading(device: Device, fixed: Part, card: Part, activity: gpm.SmActivity, *, with_activity: bool) -> GpuReading:
    """A device's own part, put together with its card's. Raises DeviceLost, LibraryLost."""
    answers = Answers()
    utilization = answers.ask("utilization_ratio", partial(pynvml.nvmlDeviceGetUtilizationRates, device.handle))
    memory = _memory(device, answers)
    processes = answers.ask("processes", partial(pynvml.nvmlDeviceGetComputeRunningProcesses, device.handle))
    answers.require_one()
    if not with_activity:
        answers.unknown[gpm.FIELD] = NOT_SUPPORTED
    return GpuReading(
        index=device.card.index,
        uuid=device.uuid,
        name=device.instance.name if device.instance else device.card.name,
        parent_uuid=device.card.uuid if device.instance else None,
        utilization_ratio=None if utilization is None else utilization.gpu / 100,
        sm_activity_ratio=activity.read(device, answers) if with_activity else None,
        memory=memory,
        processes=None if processes is None else tuple(GpuProcess(one.pid, one.usedGpuMemory) for one in processes),
        unknown=MappingProxyType({**fixed.unknown, **card.unknown, **answers.unknown}),
        **fixed.values,
        **card.values,
    )


def _memory(device: Device, answers: Answers) -> GpuMemory | None:
    got = answers.ask(
        "memory",
        partial(pynvml.nvmlDeviceGetMemoryInfo, device.handle, pynvml.nvmlMemory_v2),
        partial(pynvml.nvmlDeviceGetMemoryInfo, device.handle),
    )
    if got is None:
        if answers.unknown["memory"] == NOT_SUPPORTED and device.instance is None:
            # Neither version: a card that has no memory of its own but shares the CPU's.
            answers.unknown["memory"] = UNIFIED_MEMORY
        return None
    reserved = getattr(got, "reserved", None)
    api = MemoryApi.V1 if reserved is None else MemoryApi.V2
    return GpuMemory(got.total, got.used, got.free, reserved, api)


def _throttle_reasons(card: Any, answers: Answers) -> tuple[str, ...] | None:
    bits = answers.ask(
        "throttle_reasons",
        partial(pynvml.nvmlDeviceGetCurrentClocksEventReasons, card),
        partial(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, card),  # drivers before 535
    )
    if bits is None:
        return None
    set_bits = [1 << position for position in range(bits.bit_length()) if bits >> position & 1]
    return tuple(THROTTLE_REASONS.get(bit, f"reason_{bit:#x}") for bit in set_bits)


def _ecc_errors(card: Any, name: str, kind: int, answers: Answers) -> int | None:
    """Since the card was made: the volatile counters fall at every reload of the driver."""
    count = answers.ask(name, partial(pynvml.nvmlDeviceGetTotalEccErrors, card, kind, pynvml.NVML_AGGREGATE_ECC))
    return None if count is None else int(count)


def _nvlinks_active(card: Any, answers: Answers) -> int | None:
    """Links in use; a card has fewer links than NVML has numbers for, and errs at the first that is not there."""
    first = answers.ask("nvlinks_active", partial(pynvml.nvmlDeviceGetNvLinkState, card, 0))
    if first is None:
        return None
    active = int(first)
    beyond = Answers()
    for link in range(1, pynvml.NVML_NVLINK_MAX_LINKS):
        state = beyond.ask("link", partial(pynvml.nvmlDeviceGetNvLinkState, card, link))
        if state is None:
            break
        active += int(state)
    return active


def _current(modes: Any) -> bool | None:
    """Of NVML's pair of a current and a pending mode."""
    return None if modes is None else bool(modes[0])
