"""All that the checks look at, taken once before any of them runs.

Belongs here: these values, with where files are looked for. Never: a judgement, how they were come by (gathering.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from controller.settings import Settings
from domain.errors import GovernorError
from domain.readings.gpu import GpusReading
from domain.readings.vllm import VllmReading
from domain.runtime import EngineRuntime


@dataclass(frozen=True, slots=True)
class Roots:
    """Where the kernel's and the system's files are, and programs. Tests put folders of their own here."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    etc: Path = Path("/etc")
    programs: str | None = None
    """As PATH; None: the process's own."""


@dataclass(frozen=True, slots=True)
class KernelClock:
    """What adjtimex(2) says of the wall clock."""

    synchronised: bool
    max_error_s: float


@dataclass(frozen=True, slots=True)
class EngineSeen:
    """vLLM at `engine.url`. None and empty: not told; the two errors say why."""

    reading: VllmReading | None = None
    metrics_error: GovernorError | None = None
    """Why `/metrics` gave no reading."""
    cache_config: Mapping[str, str] = field(default_factory=dict)
    """Labels of vLLM's `vllm:cache_config_info`."""
    runtime: EngineRuntime | None = None
    runtime_error: GovernorError | None = None
    """Why the plugin gave no runtime."""
    version: str | None = None
    pool_bytes: float | None = None
    """The KV pool, as the plugin's statistics or vLLM's `kv_cache_memory_bytes` say."""
    requests_per_s: float | None = None
    """Requests finished a second, over `rate_over`."""
    rate_over: str = ""
    """For people: the time that the rate was taken over."""


@dataclass(frozen=True, slots=True)
class GpusSeen:
    """NVML. Without a reading one of the two says why: `absence` where nothing is wrong, `problem` where it is."""

    reading: GpusReading | None = None
    absence: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """One picture; files under `roots` are read by the checks themselves."""

    settings: Settings
    now: datetime
    engine: EngineSeen = field(default_factory=EngineSeen)
    gpus: GpusSeen = field(default_factory=GpusSeen)
    clock: KernelClock | None = None
    """None: this kernel does not say."""
    roots: Roots = field(default_factory=Roots)
