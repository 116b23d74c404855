"""The names that the sensor knows, against the vLLM that runs."""

from __future__ import annotations

import aiohttp

from bench.load import Load, LoadOptions
from bench.server import VllmServer
from controller.sensors.vllm import VllmSensor, names
from domain.readings.vllm import VllmReading
from domain.slo import Latency
from tests.waiting import until

NEWEST = {
    **{field: series.names[0] for field, series in {**names.GAUGES, **names.COUNTERS, **names.LENGTHS}.items()},
    **{latency.value: series.names[0] for latency, series in names.LATENCIES.items()},
    "asleep": names.AWAKE.names[0],
}
CLIENTS = 4


async def _answered(load: Load, count: int) -> bool:
    assert load.failed_total == 0, load.causes
    return load.ok_total >= count


async def _idle(sensor: VllmSensor) -> VllmReading:
    """A reading of an engine that has nothing to do; what clients broke off is told a moment later."""
    found: list[VllmReading] = []

    async def idle() -> bool:
        found[:] = [await sensor.read()]
        return (found[0].running, found[0].waiting) == (0, 0)

    await until("the engine is idle", idle)
    return found[0]


async def _read_after_a_load(server: VllmServer) -> tuple[VllmReading, VllmReading, int]:
    async with aiohttp.ClientSession() as session:
        sensor = VllmSensor(session, server.url, 30.0)
        before = await _idle(sensor)
        async with Load(server.url, server.options.served_name, LoadOptions(clients=CLIENTS, max_tokens=8)) as load:
            await until("twenty answers", lambda: _answered(load, 20))
        return before, await _idle(sensor), load.ok_total


async def test_every_wanted_series_is_there_under_its_newest_name_and_counts_what_was_sent(server: VllmServer) -> None:
    """None is absent on 0.32: the API server's own byte count needs one answered request, which the load sends."""
    if not server.alive:
        await server.start()
    before, after, sent = await _read_after_a_load(server)
    assert after.series == NEWEST
    assert set(after.latencies) == set(Latency)
    assert (after.requests_finished or 0) - (before.requests_finished or 0) == sent
    assert (after.generation_tokens or 0) - (before.generation_tokens or 0) == 8 * sent
    for histogram in (after.latencies[Latency.E2E], after.prompt_lengths, after.output_lengths):
        assert histogram is not None
        assert histogram.samples == after.requests_finished
    assert (after.response_bytes or 0) > (before.response_bytes or 0)
    assert (after.running, after.waiting, after.deferred, after.asleep) == (0, 0, 0, False)
    assert [one.engine for one in after.engines] == ["0"]
