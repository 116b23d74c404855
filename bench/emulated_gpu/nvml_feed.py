"""What NVML would say of the emulated GPU, written into the scripted library's file while the engine runs.

Belongs here: utilisation, power and energy from the device's own count of its time. Never: the library
(bench/emulated_nvml), a figure of a card (presets).
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Protocol

from bench.emulated_gpu.clock import Clock
from bench.emulated_gpu.power import PowerModel
from bench.emulated_nvml.cards import card
from bench.emulated_nvml.script import Machine, numbers

EVERY_S = 0.5
"""Shorter than a tick of the daemon."""


class Counted(Protocol):
    """The executor."""

    busy_s: float
    computing_s: float


class NvmlFeed:
    """One card. `write` is called every EVERY_S in a thread of its own, which ends with the process or at `close`."""

    def __init__(self, path: Path, name: str, memory_gib: float, power: PowerModel, device: Counted, clock: Clock):
        self._path, self._power, self._device, self._clock = path, power, device, clock
        self._card = card(name, "GPU-e0000000-0000-0000-0000-000000000000", memory_gib)
        self._began_s = clock.now_s()
        self._seen = self._began_s, 0.0, 0.0
        self._closing = threading.Event()

    def start(self) -> None:
        """Begin to write."""
        self.write()
        threading.Thread(target=self._follow, name="nvml-feed", daemon=True).start()

    def close(self) -> None:
        """Write no more."""
        self._closing.set()

    def write(self) -> None:
        """The card as it has been since the last time."""
        now_s, busy_s = self._clock.now_s(), self._device.busy_s
        energy_j = self._power.energy_j(now_s - self._began_s, busy_s, self._device.computing_s)
        (seen_s, seen_busy_s, seen_j), self._seen = self._seen, (now_s, busy_s, energy_j)
        passed_s = now_s - seen_s
        share = min(1.0, (busy_s - seen_busy_s) / passed_s) if passed_s > 0 else 0.0
        watts = (energy_j - seen_j) / passed_s if passed_s > 0 else self._power.idle_w
        self._card.answers |= {
            "nvmlDeviceGetUtilizationRates": numbers(round(100 * share), round(100 * share)),
            "nvmlDeviceGetPowerUsage": numbers(round(1000 * watts)),
            "nvmlDeviceGetEnforcedPowerLimit": numbers(round(1000 * self._power.cap_w)),
            "nvmlDeviceGetTotalEnergyConsumption": numbers(round(1000 * energy_j)),
        }
        Machine([self._card]).write(self._path)

    def _follow(self) -> None:
        while not self._closing.wait(EVERY_S):
            self.write()
