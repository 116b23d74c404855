"""All sources of one tick: what one of them does to the others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controller.clock import Now
from controller.sensing import Sensing
from domain.errors import EngineUnreachable
from domain.readings.vllm import VllmReading
from domain.snapshot import Source
from tests import views


class Fake:
    """A source that answers what it is told to, and keeps what it was asked with."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.silent = False
        self.asked: list[tuple[Any, ...]] = []

    async def read(self, *asked: Any) -> Any:
        self.asked.append(asked)
        answer = self.answer() if callable(self.answer) else self.answer
        if isinstance(answer, Exception):
            raise answer
        return answer


class Rig:
    """All sensors, each a fake."""

    def __init__(self) -> None:
        self.s = 0.0
        self.link = Fake((None, "waiting for it"))
        self.metrics = Fake(EngineUnreachable("no answer"))
        self.gpus = Fake(None)
        link: Any = self.link
        metrics: Any = self.metrics
        gpus: Any = self.gpus
        nothing: Any = Fake(None)
        self.sensing = Sensing(self.clock, link, metrics, nothing, gpus, nothing)

    def clock(self) -> Now:
        return Now(self.s, datetime.fromtimestamp(self.s, UTC))


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_source_that_breaks_unforeseen_takes_no_other_with_it(rig: Rig) -> None:
    rig.metrics.answer = VllmReading(running=3.0)
    for source in (rig.link, rig.gpus):
        source.answer = OverflowError("cannot convert float infinity to integer")
    snapshot = await rig.sensing.snapshot()
    assert snapshot.vllm == VllmReading(running=3.0)
    assert snapshot.runtime is None
    assert set(snapshot.problems) == {Source.RUNTIME, Source.GPU}
    assert snapshot.problems[Source.RUNTIME].startswith("cannot be read: OverflowError")


async def test_a_snapshot_says_how_long_its_slowest_source_took(rig: Rig) -> None:
    def slow() -> VllmReading:
        rig.s += 2.0
        return VllmReading()

    rig.metrics.answer = slow
    snapshot = await rig.sensing.snapshot()
    assert (snapshot.now_s, snapshot.took_s) == (0.0, 2.0)


async def test_before_any_engine_serves_no_gpu_is_taken_for_its_own(rig: Rig) -> None:
    """Field case E3: a machine's other GPUs are somebody else's, whose energy would be billed."""
    await rig.sensing.snapshot()
    await rig.sensing.snapshot()
    rig.link.answer = (views.runtime(), None)
    await rig.sensing.snapshot()
    assert rig.gpus.asked == [("",), ("",), (None,)]


async def test_an_engine_without_the_plugin_is_taken_to_use_every_gpu(rig: Rig) -> None:
    rig.metrics.answer = VllmReading()
    await rig.sensing.snapshot()
    rig.metrics.answer = EngineUnreachable("no answer")
    await rig.sensing.snapshot()
    assert rig.gpus.asked == [(), ()]
