"""A loop, a fake engine over real HTTP and a history in a file, with time in the test's hands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller.clock import Now
from controller.engine.connections import Connections
from controller.loop import Loop
from controller.sensors.nvml import NvmlSensor
from controller.sensors.nvml.driver import Driver
from controller.sensors.nvml.selection import Wanted
from controller.settings import EngineSettings, Settings
from domain.knobs import MAX_NUM_SEQS
from store.history import History, StoredDecision
from store.writer import Writer
from tests.fake_engine import FakeEngine
from tests.writers import writing, written

GROWS = 2
"""Ticks until a first growth: rates need two readings."""


class Clock:
    """Stands still within a tick, unless a test moves it; each tick begins 1.5 s after the end of the last."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> Now:
        return Now(self.s, datetime.fromtimestamp(self.s, UTC))

    def tick_with(self, loop: Loop) -> None:
        """Go forward before `loop` ticks, by whomever it is told to."""
        tick = loop.tick

        async def later() -> None:
            self.s += 1.5
            await tick()

        loop.tick = later  # type: ignore[method-assign]


class NoDriver(Driver):
    """NVML without a GPU, unless a test says what reading it does."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.reading: Callable[[], None] = lambda: None

    def read(self, wanted: Wanted, reopen_s: float) -> None:
        self.reading()


class Rig:
    """A loop, its engine and its history. Time is the test's."""

    def __init__(self, engine: FakeEngine, connections: Connections, writer: Writer, history: History) -> None:
        self.engine, self.connections = engine, connections
        self.writer, self.history = writer, history
        self.loop = self.build()

    def build(self, **settings: Any) -> Loop:
        plain: dict[str, Any] = {"engine": {"url": self.engine.url}, "tick_s": 1.0, "guards": {"warm_up_s": 0}}
        values = plain | settings
        self.driver = NoDriver()
        self.nvml = NvmlSensor(driver=self.driver)
        self.clock = Clock()
        self.loop = Loop(Settings(**values), self.connections, self.writer, self.nvml, self.clock)
        self.clock.tick_with(self.loop)
        return self.loop

    async def decisions(self, knob: str = MAX_NUM_SEQS) -> list[StoredDecision]:
        """What the history holds, once all is written that was handed over."""
        await written(self.writer)
        return await self.history.decisions.select(limit=100, knob=knob)

    @property
    def path(self) -> Path:
        """The history's file."""
        return Path(self.writer.where)


@asynccontextmanager
async def rigged(path: Path, **writer: Any) -> AsyncIterator[Rig]:
    """One with its history at `path`; at the end all that waits is written."""
    engine = FakeEngine()
    await engine.server.start_server()
    async with writing(path, **writer) as pen, Connections(EngineSettings(url=engine.url)) as connections:
        history = History(pen.url)
        yield Rig(engine, connections, pen, history)
        await history.close()
    await engine.server.close()


async def ticks(rig: Rig, count: int) -> None:
    for _ in range(count):
        await rig.loop.tick()
