"""Whose GPUs are read: what the engine says of its own processes, tick by tick."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bench.emulated_nvml import cards
from bench.emulated_nvml.script import ALL, error
from controller.sensing import Sensing
from domain.runtime import EngineCore, EngineRuntime
from domain.snapshot import Source
from tests.nvml import NvmlRig, scripted_nvml


class Engine:
    """In place of the link to the engine: `visible` of each of its cores, None while it does not answer."""

    silent = False

    def __init__(self) -> None:
        self.visible: tuple[str | None, ...] | None = None

    async def read(self) -> tuple[EngineRuntime | None, str | None]:
        if self.visible is None:
            return None, "waiting for it"
        cores = tuple(
            EngineCore(index, "boot", 1, 0, 0, {}, None, 0, {}, visible_devices=visible)
            for index, visible in enumerate(self.visible)
        )
        return EngineRuntime("boot", 1, "0.32.0", "0.1.0", cores), None


class Silent:
    """A source that is not there."""

    async def read(self) -> None:
        return None


class Rig(NvmlRig):
    """All sensors over a scripted NVML with three cards; only the engine and the GPUs answer."""

    def __init__(self, nvml: Any) -> None:
        super().__init__(nvml)
        self.engine = Engine()
        silent: Any = Silent()
        link: Any = self.engine
        self.sensing = Sensing(self.clock, link, silent, silent, self.sensor, silent)
        self.cards = [cards.a100_80g(f"GPU-{letter}") for letter in "abc"]
        self.show(*self.cards)

    async def gpus(self) -> list[str]:
        self.clock.s += 1.0
        gpus = (await self.sensing.snapshot()).gpus
        assert gpus is not None
        return [gpu.uuid for gpu in gpus.devices]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    with scripted_nvml(tmp_path) as nvml:
        rig = Rig(nvml)
        yield rig
        await rig.sensor.close()


async def test_the_very_first_reading_is_of_the_engines_gpus_alone(rig: Rig) -> None:
    rig.engine.visible = ("1",)
    assert await rig.gpus() == ["GPU-b"]


async def test_the_cores_of_one_engine_are_read_together(rig: Rig) -> None:
    rig.engine.visible = ("2", "0", "2")
    assert await rig.gpus() == ["GPU-a", "GPU-c"]


async def test_without_an_engine_no_gpu_is_read_until_it_says_which_are_its_own(rig: Rig) -> None:
    """Field case E3: vLLM loads its model for minutes, on two GPUs of a machine full of others' work."""
    for _ in range(2):
        rig.clock.s += 1.0
        snapshot = await rig.sensing.snapshot()
        assert snapshot.gpus is None
        assert Source.GPU not in snapshot.problems
    rig.engine.visible = ("1",)
    assert await rig.gpus() == ["GPU-b"]


async def test_gpus_that_the_operator_names_are_read_without_an_engine(rig: Rig) -> None:
    rig.settings(devices="2")
    assert await rig.gpus() == ["GPU-c"]


async def test_while_the_engine_is_away_its_gpus_stay_the_same(rig: Rig) -> None:
    rig.engine.visible = ("1",)
    await rig.gpus()
    rig.engine.visible = None
    for _ in range(3):
        assert await rig.gpus() == ["GPU-b"]
    rig.engine.visible = (None,)
    await rig.gpus()
    assert await rig.gpus() == ["GPU-a", "GPU-b", "GPU-c"]


async def test_a_lost_gpu_is_said_once_and_the_others_are_in_the_snapshot(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.engine.visible = (None,)
    await rig.gpus()
    rig.cards[1].answers[ALL] = error(15)
    rig.show(*rig.cards)
    for _ in range(4):
        assert await rig.gpus() == ["GPU-a", "GPU-c"]
    snapshot = await rig.sensing.snapshot()
    assert snapshot.problems[Source.GPU].startswith("cannot read GPU GPU-b: ")
    assert sum("cannot read GPU GPU-b" in record.message for record in caplog.records) == 1
