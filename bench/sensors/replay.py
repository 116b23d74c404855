"""Known latencies, scrape by scrape, through the daemon's own sensor and estimator.

Belongs here: the order of a replay and which samples an estimate speaks of. Never: the estimate.

Samples are kept in the order in which they completed, so the window that the estimator chose, which holds n samples,
holds the last n: the truth is taken over exactly those.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import aiohttp

from bench.sensors.exposition import VLLM_BOUNDS, Exposition, with_bound
from bench.sensors.loads import OBJECTIVES, SHAPES, TYPICAL_S, Shape
from bench.sensors.served import Served
from bench.sensors.truth import Error, compare
from controller.estimation import Estimator
from controller.sensors.vllm import VllmSensor
from domain.slo import Latency
from domain.snapshot import Snapshot
from domain.view import View

TICK_S = 1.0
PER_TICK = {Latency.TTFT: 120, Latency.ITL: 400, Latency.E2E: 120}
"""Samples between two scrapes."""
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Case:
    """All estimates of one latency in one replay. `on_bound`: a bucket bound lay on the objective."""

    shape: str
    latency: Latency
    on_bound: bool
    slo_s: float
    errors: tuple[Error, ...]


async def replay_all(ticks: int, seed: int) -> list[Case]:
    """Every shape with vLLM's bounds and with bounds on the objectives."""
    found: list[Case] = []
    async with aiohttp.ClientSession() as session:
        for shape in SHAPES:
            for on_bound in (False, True):
                found += await replay(session, shape, on_bound=on_bound, ticks=ticks, seed=seed)
    return found


async def replay(session: aiohttp.ClientSession, shape: Shape, *, on_bound: bool, ticks: int, seed: int) -> list[Case]:
    """One replay; the same seed draws the same samples whatever the bounds are."""
    bounds = {slo.latency: with_bound(slo.latency, slo.bound_s) for slo in OBJECTIVES} if on_bound else VLLM_BOUNDS
    exposition, drawn = Exposition(bounds), draws(shape, seed)
    seen: dict[Latency, list[float]] = {latency: [] for latency in PER_TICK}
    errors: dict[Latency, list[Error]] = {latency: [] for latency in PER_TICK}
    async with Served() as served:
        sensor, estimator = VllmSensor(session, served.url, timeout_s=5.0), Estimator(TICK_S)
        for tick in range(ticks + 1):
            if tick:
                fresh = next(drawn)
                exposition.observe(fresh)
                for latency, values in fresh.items():
                    seen[latency] += values
            served.text = exposition.render()
            view = estimator.update(await _snapshot(sensor, tick), OBJECTIVES)
            for latency, found in errors.items():
                found += _judge(view, latency, seen[latency])
    bound_s = {slo.latency: slo.bound_s for slo in OBJECTIVES}
    return [Case(shape.name, one, on_bound, bound_s[one], tuple(errors[one])) for one in PER_TICK]


def draws(shape: Shape, seed: int) -> Iterator[dict[Latency, list[float]]]:
    """What completes between two scrapes, for ever."""
    chance = random.Random(f"{shape.name} {seed}")
    while True:
        yield {
            latency: [shape.draw(chance, TYPICAL_S[latency]) for _ in range(number)]
            for latency, number in PER_TICK.items()
        }


async def _snapshot(sensor: VllmSensor, tick: int) -> Snapshot:
    at_s = tick * TICK_S
    return Snapshot(1000.0 + at_s, _EPOCH + timedelta(seconds=at_s), vllm=await sensor.read())


def _judge(view: View, latency: Latency, seen: list[float]) -> list[Error]:
    histogram = view.latencies.get(latency)
    number = int(histogram.samples) if histogram is not None else 0
    if histogram is None or number == 0:
        return []
    bound_s = next(slo.bound_s for slo in view.slos if slo.latency is latency)
    error = compare(seen[-number:], histogram, bound_s)
    return [] if error is None else [error]
