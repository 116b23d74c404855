"""The scripted NVML for tests of the daemon: a sensor on it, with the test's own time.

Belongs here: what several test files need. Never: a law.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.emulated_nvml.build import NoLibrary
from bench.emulated_nvml.inprocess import LoadedNvml, loaded
from bench.emulated_nvml.script import Card, Machine
from controller.clock import Now
from controller.sensors.nvml import NvmlSensor
from controller.settings import GpuSettings
from domain.readings.gpu import GpuReading, GpusReading
from tests.programs import without


class Clock:
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> Now:
        return Now(self.s, datetime.fromtimestamp(self.s, UTC))


class NvmlRig:
    """A scripted NVML and a sensor that reads it."""

    def __init__(self, nvml: LoadedNvml) -> None:
        self.nvml, self.clock = nvml, Clock()
        self.sensor = NvmlSensor(GpuSettings(timeout_s=5.0), self.clock)

    def settings(self, **values: Any) -> None:
        self.sensor.configure(GpuSettings(**({"timeout_s": 5.0} | values)))

    def show(self, *cards: Card, system: dict[str, str] | None = None) -> None:
        """These cards are in the machine from the next call on; `system` answers for the library as a whole."""
        machine = Machine(list(cards))
        machine.system |= system or {}
        self.nvml.show(machine)

    async def read(self, *visible_devices: str | None, after_s: float = 1.0) -> GpusReading:
        """The reading of a tick, that much later than the last."""
        self.clock.s += after_s
        reading = await self.sensor.read(*visible_devices)
        assert reading is not None, self.sensor.absence
        return reading

    async def one(self, card: Card) -> GpuReading:
        """What is read of the only card in the machine."""
        self.show(card)
        (reading,) = (await self.read(after_s=100.0)).devices
        return reading


@contextmanager
def scripted_nvml(folder: Path) -> Iterator[LoadedNvml]:
    """The library in this process; without a C compiler the test is skipped, or fails where all is needed."""
    try:
        with loaded(folder / "nvml.txt") as nvml:
            yield nvml
    except NoLibrary as error:
        without(str(error))
