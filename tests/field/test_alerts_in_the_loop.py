"""Field cases in which people have to be told: the whole loop on an engine over HTTP, a webhook that listens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from domain.errors import RecoverableError
from domain.readings.gpu import GpusReading
from tests.alarms import NOWHERE, aim, alarmed, alerts, heard, told_to, watched
from tests.loop_rig import Rig, rigged
from tests.snapshots import GIB, gpu, gpus, memory
from tests.told import OtherEnd

GC = 'python_gc_objects_collected_total{generation="0"} 512.0\n'


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rigged(tmp_path / "history.db") as rig:
        yield rig


@pytest.fixture
async def end() -> AsyncIterator[OtherEnd]:
    made = OtherEnd()
    await made.start()
    yield made
    await made.server.close()


def metrics(engines: dict[str, dict[str, float]], finished: float = 0.0, deferred: float | None = None) -> web.Response:
    """vLLM's text with these gauges for each engine core."""
    names = {
        "running": "vllm:num_requests_running",
        "waiting": "vllm:num_requests_waiting",
        "kv": "vllm:kv_cache_usage_perc",
        "tokens": "vllm:generation_tokens_total",
    }
    rows = [f'{names[key]}{{engine="{core}"}} {value}' for core, told in engines.items() for key, value in told.items()]
    rows.append(f'vllm:request_success_total{{engine="0",finished_reason="length"}} {finished}')
    rows.append('vllm:num_preemptions_total{engine="0"} 0')
    if deferred is not None:
        rows.append(f'vllm:num_requests_waiting_by_reason{{engine="0",reason="deferred"}} {deferred}')
    return web.Response(text="\n".join(rows) + "\n")


def of_card(rig: Rig, reading: Any) -> None:
    """What NVML gives from now on; an exception is raised, something that can be called is."""

    def read(*_wanted: Any) -> GpusReading:
        if isinstance(reading, Exception):
            raise reading
        answer: GpusReading = reading() if callable(reading) else reading
        return answer

    rig.driver.read = read  # type: ignore[assignment, method-assign]


@pytest.mark.parametrize(
    "answer",
    [
        lambda: web.Response(text=""),
        lambda: web.Response(text=GC),
        lambda: web.Response(status=500),
    ],
    ids=["empty", "only python_gc", "500"],
)
async def test_an_endpoint_without_engine_data_is_blind_told_once_and_nothing_is_changed(
    rig: Rig, end: OtherEnd, answer: Any
) -> None:
    """Field case M2: frozen policies, one alert, a hint, never an idle engine and never a purge."""
    async with alarmed(rig, alerts=told_to(end)) as loop:
        loop._sensing._metrics._clock = loop.clock
        await watched(rig, 10, loop)
        rig.engine.metrics_answer = answer
        await watched(rig, 20, loop)
        changed = len(rig.engine.patches)
        await watched(rig, 200, loop)
        assert heard(end) == [("blind", "firing")]
        assert len(rig.engine.patches) == changed
        assert loop.observed.view is not None
        assert loop.observed.view.running is None
        rig.engine.metrics_answer = None
        await watched(rig, 120, loop)
    assert heard(end) == [("blind", "firing"), ("blind", "resolved")]
    assert rig.engine.purges == []
    said = alerts(end)[0]["annotations"]["description"]
    assert "--disable-log-stats" in said or "PROMETHEUS_MULTIPROC_DIR" in said


async def test_a_redirect_is_followed_and_nobody_is_told(rig: Rig, end: OtherEnd) -> None:
    """Field case M2: a redirect to where the metrics are is no fault."""

    def answer() -> web.Response:
        rig.engine.metrics_answer = None  # the request that follows it gets them
        return web.Response(status=307, headers={"Location": "/metrics"})

    async with alarmed(rig, alerts=told_to(end)) as loop:
        for _ in range(60):
            rig.engine.metrics_answer = answer
            await watched(rig, 1, loop)
        assert loop.observed.view is not None
        assert loop.observed.view.running is not None
    assert heard(end) == []


async def test_the_kv_alarm_is_the_worst_engines(rig: Rig, end: OtherEnd) -> None:
    """Field case M4: engine 0 with 40 running and KV 0.97 does not hide behind engine 1."""
    tokens = iter(range(0, 1_000_000, 100))

    def answer() -> web.Response:
        made = next(tokens)
        cores = {
            "0": {"running": 40, "waiting": 5, "kv": 0.97, "tokens": made},
            "1": {"running": 2, "waiting": 0, "kv": 0.10, "tokens": made},
        }
        return metrics(cores, finished=made / 10)

    rig.engine.metrics_answer = answer
    async with alarmed(rig, mode="observe", alerts=told_to(end)) as loop:
        await watched(rig, 120, loop)
        assert loop.observed.view is not None
        assert loop.observed.view.running == 42
    (told,) = [one for one in alerts(end) if one["labels"]["alertname"] == "kv_cache_full"]
    assert told["status"] == "firing"
    assert "is 0.97, over 0.95 for 60 s" in told["annotations"]["description"]


async def test_a_driver_that_went_away_is_told_once_and_steering_goes_on(rig: Rig, end: OtherEnd) -> None:
    """Field case N4: five good polls, then every call fails; the sentence names the likely cause."""
    lost = RecoverableError("cannot read NVML: unknown error (999); was the container's device access taken away?")
    async with alarmed(rig, alerts=told_to(end)) as loop:
        of_card(rig, gpus(gpu(memory=memory(40 * GIB))))
        await watched(rig, 8, loop)
        of_card(rig, lost)
        await watched(rig, 300, loop)
        assert loop.observed.failed_ticks == 0
        assert rig.engine.cap > 8
    assert heard(end) == [("gpu_unresponsive", "firing")]
    assert "device access taken away" in alerts(end)[0]["annotations"]["description"]
    assert rig.engine.purges == []


async def test_a_driver_of_another_version_than_its_library_at_the_start_is_told(rig: Rig, end: OtherEnd) -> None:
    """Field case N4: init answers 18 from the first poll on."""
    async with alarmed(rig, alerts=told_to(end)) as loop:
        of_card(rig, RecoverableError("cannot use NVML: driver/library version mismatch (18); restart the machine"))
        await watched(rig, 60, loop)
    assert heard(end) == [("gpu_unresponsive", "firing")]


async def test_a_driver_call_that_never_returns_is_told_while_the_loop_goes_on(rig: Rig, end: OtherEnd) -> None:
    """Field case N6: the reading blocks; the ticks do not."""
    released = threading.Event()
    async with alarmed(rig, gpu={"timeout_s": 0.02}, alerts=told_to(end)) as loop:
        of_card(rig, gpus(gpu(memory=memory(40 * GIB))))
        await watched(rig, 15, loop)
        of_card(rig, released.wait)
        ticks = loop.observed.ticks
        await watched(rig, 90, loop)
        assert loop.observed.ticks - ticks == 60
        assert loop.observed.failed_ticks == 0
        released.set()
    assert heard(end) == [("gpu_unresponsive", "firing")]
    assert "has not answered" in alerts(end)[0]["annotations"]["description"]


async def test_an_engine_that_makes_no_progress_is_told_once_and_not_purged(rig: Rig, end: OtherEnd) -> None:
    """Field case R1: deferred plus running at the cap, nothing ends, health is green."""
    queue = iter(range(92, 100_000, 7))

    def answer() -> web.Response:
        waiting = next(queue)
        core = {"running": 3.0, "waiting": waiting, "kv": 0.21, "tokens": 9000.0}
        return metrics({"0": core}, finished=450, deferred=waiting)

    rig.engine.metrics_answer = answer
    async with alarmed(rig, alerts=told_to(end)) as loop:
        await watched(rig, 240, loop)
    assert heard(end).count(("no_progress", "firing")) == 1
    assert ("no_progress", "resolved") not in heard(end)
    told = next(one for one in alerts(end) if one["labels"]["alertname"] == "no_progress")
    assert told["labels"]["severity"] == "critical"
    assert "restart the engine" in told["annotations"]["summary"]
    assert rig.engine.purges == []


async def test_an_engine_that_died_is_told_once_over_its_whole_reload(rig: Rig, end: OtherEnd) -> None:
    """Field case R6: 98 % of the card for hours is normal, then connections are refused for 12 minutes."""
    async with alarmed(rig, mode="observe", alerts=told_to(end)) as loop:
        of_card(rig, gpus(gpu(memory=memory(78.4 * GIB))))
        await watched(rig, 600, loop)
        assert heard(end) == []
        aim(loop, NOWHERE)
        await watched(rig, 720, loop)
        assert heard(end) == [("engine_down", "firing")]
        rig.engine.restart()
        aim(loop, rig.engine.url)
        await watched(rig, 180, loop)
    assert heard(end) == [("engine_down", "firing"), ("engine_down", "resolved")]
    assert rig.engine.purges == []


async def test_a_tick_that_hangs_is_cut_off_and_told(rig: Rig, end: OtherEnd) -> None:
    """Field case S2: a job that never returns must not silence the rest."""

    async def hang() -> None:
        await asyncio.Event().wait()

    async with alarmed(rig, alerts=told_to(end)) as loop:
        loop._limit_s = 0.01
        sense, loop._sensing.snapshot = loop._sensing.snapshot, hang  # type: ignore[method-assign, assignment]
        await watched(rig, 60, loop)
        assert heard(end) == [("ticks_failing", "firing")]
        loop._limit_s, loop._sensing.snapshot = 10.0, sense  # type: ignore[method-assign]
        await watched(rig, 120, loop)
    assert heard(end) == [("ticks_failing", "firing"), ("ticks_failing", "resolved")]


async def test_a_host_that_slept_for_two_hours_raises_no_alarm(rig: Rig, end: OtherEnd) -> None:
    """Field case S2: nothing is worked out across the gap."""
    async with alarmed(rig, alerts=told_to(end)) as loop:
        of_card(rig, gpus(gpu(memory=memory(40 * GIB))))
        await watched(rig, 60, loop)
        rig.clock.s += 7200
        await watched(rig, 60, loop)
    assert heard(end) == []
