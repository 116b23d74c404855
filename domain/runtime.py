"""What the plugin inside vLLM says of the running engine: its knobs, its identity, its lease.

Belongs here: the answer of `GET /governor/v1/runtime` as frozen values. Never: how it is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from domain.knobs import MAX_NUM_SEQS


class Support(StrEnum):
    """How far the running vLLM carries a knob."""

    NATIVE = "native"
    LIMITED = "limited"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Knob:
    """One live knob, as the engine reads it now. Values are None where the engine cannot carry the knob."""

    name: str
    value: float | None
    startup: float | None
    minimum: float | None
    maximum: float | None
    support: Support
    reason: str | None = None
    disagreeing: bool = False
    """Several engine cores read different values; `value` is then the lowest."""


@dataclass(frozen=True, slots=True)
class EngineCore:
    """One engine core (one per data-parallel rank)."""

    index: int
    boot_id: str
    generation: int
    running: int
    waiting: int
    knobs: Mapping[str, Knob]
    lease_remaining_s: float | None
    lease_expirations: int
    fallback: Mapping[str, float]
    degraded: tuple[str, ...] = ()
    pid: int | None = None
    """Of the engine core's process, on its own machine and in its own PID namespace."""
    visible_devices: str | None = None
    """CUDA_VISIBLE_DEVICES of that process; None where it is not set."""
    lease_holder: str | None = None
    """Who holds the lease, as whoever took it named itself."""
    names_holder: bool = False
    """The plugin lets a lease have a holder; older ones do not."""

    @property
    def draining(self) -> bool:
        """More run than its admission cap allows: the last cut of it has not taken effect yet."""
        cap = self.knobs.get(MAX_NUM_SEQS)
        return cap is not None and cap.value is not None and self.running > cap.value


@dataclass(frozen=True, slots=True)
class Purged:
    """What the last purge of one engine core came to."""

    core: int
    ratio: float
    blocks: int
    preempted: int
    done: bool
    failed: str | None = None
    """Why it was given up."""


@dataclass(frozen=True, slots=True)
class EngineRuntime:
    """All engine cores behind one vLLM server."""

    boot_id: str
    generation: int
    vllm_version: str
    plugin_version: str
    cores: tuple[EngineCore, ...]

    @property
    def running(self) -> int:
        return sum(core.running for core in self.cores)

    @property
    def waiting(self) -> int:
        return sum(core.waiting for core in self.cores)

    @property
    def lease_expirations(self) -> int:
        return sum(core.lease_expirations for core in self.cores)

    def knob(self, name: str) -> Knob | None:
        """The knob over all cores, None when one of them has it off.

        Where the cores differ the narrowest bounds count, and the lowest value, the most cautious one in force.
        """
        knobs = [core.knobs[name] for core in self.cores if name in core.knobs]
        if (
            not knobs
            or len(knobs) != len(self.cores)
            or any(k.support is Support.OFF or k.value is None for k in knobs)
        ):
            return None
        if len(knobs) == 1:  # the usual case, and a tick asks for a hundred
            return knobs[0]
        return replace(
            knobs[0],
            value=min(k.value for k in knobs if k.value is not None),
            minimum=max((k.minimum for k in knobs if k.minimum is not None), default=None),
            maximum=min((k.maximum for k in knobs if k.maximum is not None), default=None),
            disagreeing=len({k.value for k in knobs}) > 1,
        )

    @property
    def envelope(self) -> dict[str, float]:
        """The start-up values: the governor never leaves them."""
        return {name: knob.startup for name, knob in self.cores[0].knobs.items() if knob.startup is not None}
