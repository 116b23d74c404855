"""What the demonstration measures on the engine's side: the histogram of inter-token latency and the live runtime.

Belongs here: readings with their time. Never: printing, phases.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

import aiohttp

from controller.engine.client import EngineClient
from controller.sensors.vllm import VllmSensor
from domain.errors import RecoverableError
from domain.histogram import Histogram
from domain.runtime import EngineRuntime
from domain.slo import Latency

KEPT = 4000


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the engine. `at_s` is monotonic."""

    at_s: float
    runtime: EngineRuntime | None
    itl: Histogram | None
    finished: float | None


class Meter:
    """Reads the engine about once a second; a failed read is a None, not an end."""

    def __init__(self, session: aiohttp.ClientSession, client: EngineClient) -> None:
        self._client = client
        self._sensor = VllmSensor(session, client.url, 2.0)
        self._readings: deque[Reading] = deque(maxlen=KEPT)

    async def read(self) -> Reading:
        try:
            runtime: EngineRuntime | None = await self._client.runtime()
        except RecoverableError:
            runtime = None
        try:
            scraped = await self._sensor.read()
            itl, finished = scraped.latencies.get(Latency.ITL), scraped.requests_finished
        except RecoverableError:
            itl, finished = None, None
        reading = Reading(time.monotonic(), runtime, itl, finished)
        self._readings.append(reading)
        return reading

    def itl(self, since_s: float, until_s: float) -> Histogram | None:
        """Inter-token latencies between the first and the last reading of the window; None without two readings."""
        inside = [r.itl for r in self._readings if since_s <= r.at_s <= until_s and r.itl is not None]
        return inside[-1].since(inside[0]) if len(inside) > 1 else None

    def requests_per_s(self, since_s: float, until_s: float) -> float | None:
        """Finished requests a second by the engine's own count, for runs that send no load themselves."""
        inside = [r for r in self._readings if since_s <= r.at_s <= until_s and r.finished is not None]
        if len(inside) < 2 or inside[-1].at_s <= inside[0].at_s:
            return None
        first, last = inside[0], inside[-1]
        return ((last.finished or 0.0) - (first.finished or 0.0)) / (last.at_s - first.at_s)

    def last_change_s(self, knob: str, since_s: float, until_s: float) -> float | None:
        """When the knob was last seen to move inside the window."""
        moved: float | None = None
        before: float | None = None
        for reading in self._readings:
            if not since_s <= reading.at_s <= until_s or reading.runtime is None:
                continue
            found = reading.runtime.knob(knob)
            if found is None:
                continue
            if before is not None and found.value != before:
                moved = reading.at_s
            before = found.value
        return moved
