"""A machine, a vLLM and a daemon as a check sees them, made up: files under folders of the test, a scripted NVML.

Belongs here: what several checks' cases change. Never: a case, a law.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any

from bench.emulated_nvml.script import Card
from controller.preflight.checks import CHECKS
from controller.preflight.result import Found, State
from controller.preflight.surroundings import EngineSeen, GpusSeen, KernelClock, Roots, Surroundings
from controller.settings import Settings
from domain.errors import RecoverableError
from domain.histogram import Histogram
from domain.readings.vllm import VllmReading
from domain.runtime import EngineCore, EngineRuntime, Knob, Support
from tests.nvml import NvmlRig

PID, PARENT = 4321, 4300
UNIT = "0::/system.slice/vllm.service"
GIB = 1024**3
BY_NAME = {check.name: check for check in CHECKS}


def lengths(**samples: float) -> Histogram:
    """Samples by the bucket's upper bound, as `le_100=50`; `total` is the sum of all lengths."""
    total = samples.pop("total", 0.0)
    bounds = (*(float(name.removeprefix("le_")) for name in samples), math.inf)
    return Histogram(bounds, tuple(accumulate((*samples.values(), 0.0))), total)


class Scene:
    """Nothing is wrong with it, and it has no GPU, until a case says otherwise."""

    def __init__(self, folder: Path, nvml: NvmlRig) -> None:
        self.folder = folder
        self._nvml = nvml
        self.roots = Roots(folder / "proc", folder / "sys", folder / "etc", str(folder / "bin"))
        for one in (self.roots.proc, self.roots.sys, self.roots.etc, folder / "bin"):
            one.mkdir()
        self.plain: dict[str, Any] = {"store": {"url": str(folder / "history.db")}}
        self.engine = EngineSeen(reading=VllmReading(running=3.0, waiting=0.0))
        self.gpus = GpusSeen(absence="NVML is not available")
        self.clock: KernelClock | None = KernelClock(True, 0.002)
        self.now = datetime(2026, 12, 1, tzinfo=UTC)
        self.undo: list[Callable[[], None]] = []
        """What a case changed outside the scene."""
        self._cards: tuple[Card, ...] = ()
        self._system: dict[str, str] = {}

    def file(self, path: str, text: str) -> Path:
        """Under the scene's own root: `proc/meminfo`."""
        found = self.folder / path
        found.parent.mkdir(parents=True, exist_ok=True)
        found.write_text(text)
        return found

    def program(self, name: str, prints: str) -> None:
        """Installed, and all that it does."""
        found = self.file(f"bin/{name}", f"#!/bin/sh\nprintf '%s\\n' '{prints}'\n")
        found.chmod(0o755)

    def cards(self, *cards: Card, **system: str) -> None:
        """In the machine, and the engine's; `system` is what NVML answers as a whole."""
        self._cards, self._system = cards, system

    def see(self, **changes: Any) -> None:
        """Of the engine."""
        self.engine = replace(self.engine, **changes)

    def read(self, **changes: Any) -> None:
        """In vLLM's metrics."""
        assert self.engine.reading is not None
        self.see(reading=replace(self.engine.reading, **changes))

    def knob(self, name: str, startup: float | None, value: float | None = None, **changes: Any) -> None:
        """One that the plugin lists; without a value of its own it is as vLLM was started."""
        now = startup if value is None else value
        runtime = self.engine.runtime or self._runtime()
        (core,) = runtime.cores
        made = Knob(name, now, startup, 0, 1e9, changes.pop("support", Support.NATIVE), **changes)
        self.see(runtime=replace(runtime, cores=(replace(core, knobs={**core.knobs, name: made}),)))

    def runtime(self, **core: Any) -> None:
        """The plugin answers; `core` is what its engine core says."""
        self.see(runtime=self._runtime(**core))

    def version(self, version: str) -> None:
        """Of vLLM, as the plugin tells it."""
        self.see(runtime=replace(self._runtime(), vllm_version=version))

    def process(self, pid: int = PID, cgroup: str = UNIT, status: str = "", limits: str = "") -> None:
        """An engine process of this machine."""
        for name, text in {
            "cmdline": "VLLM::EngineCore",
            "comm": "VLLM::EngineCor",
            "cgroup": cgroup,
            "status": f"Name:\tVLLM\nPPid:\t{PARENT}\n{status}",
            "limits": limits,
        }.items():
            self.file(f"proc/{pid}/{name}", text)
        if self.engine.runtime is None:
            self.runtime()

    @staticmethod
    def _runtime(**core: Any) -> EngineRuntime:
        values: dict[str, Any] = {"knobs": {}, "pid": PID} | core
        one = EngineCore(0, "boot", 1, 3, 0, lease_remaining_s=9.0, lease_expirations=0, fallback={}, **values)
        return EngineRuntime("boot", 1, "0.32.0", "0.1.0", (one,))

    async def around(self) -> Surroundings:
        """All of it, NVML read."""
        gpus = await self._seen() if self._cards or self._system else self.gpus
        return Surroundings(Settings(**self.plain), self.now, self.engine, gpus, self.clock, self.roots)

    async def _seen(self) -> GpusSeen:
        self._nvml.show(*self._cards, system=self._system)
        self._nvml.clock.s += 100.0
        try:
            reading = await self._nvml.sensor.read()
        except RecoverableError as error:
            return GpusSeen(problem=str(error))
        return GpusSeen(reading, absence=self._nvml.sensor.absence)

    async def ask(self, name: str) -> Found:
        """One check."""
        return BY_NAME[name].answer(await self.around())


class Case:
    """One scene for one check: how it has to come out, and what its words must have in them."""

    def __init__(self, check: str, state: State, says: str, cure: str | None, make: Callable[[Scene], None]) -> None:
        self.check, self.state, self.says, self.cure, self.make = check, state, says, cure, make

    @property
    def id(self) -> str:
        """For people."""
        return f"{self.check}-{self.state}-{self.make.__name__}"


class Cases(list[Case]):
    """Those of one file. Used as a decorator, it takes another."""

    def __call__(
        self, check: str, state: State, says: str, cure: str | None = None
    ) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
        """`cure` None: there is no command that would mend it."""

        def take(make: Callable[[Scene], None]) -> Callable[[Scene], None]:
            self.append(Case(check, state, says, cure, make))
            return make

        return take
