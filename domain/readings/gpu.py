"""NVML: one reading per device that the engine uses.

Belongs here: the reading as a value. Never: NVML calls, differences, judgements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class MemoryApi(StrEnum):
    """Which NVML call gave the memory. v1 counts what the driver reserves as used, v2 apart."""

    V2 = "v2"
    V1 = "v1"


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """Bytes. With v2, used + reserved + free = total; with v1 `reserved_bytes` is None and among `used_bytes`."""

    total_bytes: int
    used_bytes: int
    free_bytes: int
    reserved_bytes: int | None
    api: MemoryApi


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A compute process on the device; `used_bytes` None where the driver does not say."""

    pid: int
    used_bytes: int | None


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One physical GPU, or one MIG instance of it: then `uuid` is the instance's and `parent_uuid` the card's.

    What belongs to the card as a whole (power, energy, temperature, clocks, ECC, BAR1) is the card's in both cases, so
    over several instances of one card it must be counted once, by `card_uuid`.
    """

    index: int
    """NVML's index of the card: it may change when another card is lost or comes back."""
    uuid: str
    name: str
    parent_uuid: str | None = None
    utilization_ratio: float | None = None
    """NVML's GPU utilisation: share of time in which any kernel ran."""
    sm_activity_ratio: float | None = None
    """Share of SMs that had work, from two GPM samples; Hopper and newer."""
    memory: GpuMemory | None = None
    bar1_total_bytes: int | None = None
    bar1_used_bytes: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    energy_j: float | None = None
    """Counter since the driver was loaded."""
    temperature_c: float | None = None
    sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    throttle_reasons: tuple[str, ...] | None = None
    """NVML's clock event reasons in force, by its own names in lower case; empty: none."""
    ecc_enabled: bool | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    nvlinks_active: int | None = None
    mig_enabled: bool | None = None
    processes: tuple[GpuProcess, ...] | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Why a field is None, by its name: `not supported`, `unified memory` or NVML's own words."""

    @property
    def card_uuid(self) -> str:
        return self.parent_uuid or self.uuid


@dataclass(frozen=True, slots=True)
class GpusReading:
    """The devices that the engine uses and that answered; `lost` are those of them that do not."""

    devices: tuple[GpuReading, ...]
    driver_version: str | None = None
    nvml_version: str | None = None
    lost: tuple[str, ...] = ()
    """UUIDs of devices that were read before and are gone or answer with an error."""
    problems: tuple[str, ...] = ()
    """What is wrong although this reading came: a lost device, an entry that names none; as sentences."""
