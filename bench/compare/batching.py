"""The seeds' first table: static, dynamic, dynamic with tiers, on their mixed hot and cold load.

Belongs here: how each one's capacity is found and what is measured at which load. Never: a contender's settings.

Capacity is the highest offered rate at which 99 % of the requests that came after 30 s kept every objective, found by
bisection for each seed on its own. The same seed and rate ask all three the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.compare import interval
from bench.compare.contenders import DEFAULT, STEERED, Contender
from bench.compare.pool import Pool
from bench.compare.run import Job
from bench.compare.scenario import Scenario
from bench.compare.scenarios import SCENARIOS, on
from bench.compare.score import Score
from bench.emulated_gpu.presets import Preset

STATIC_BATCH = 8
"""The seeds' static batching, and their rollback."""
SCHEMES: Mapping[str, Contender] = {
    "static 8": Contender("static 8", STATIC_BATCH, DEFAULT[1]),
    "dynamic": STEERED["model"],
    "dynamic + tiers": STEERED["tiers"],
}
KEPT_RATIO = 0.99
SECONDS = 150.0
SLOWEST, FASTEST = 2.0, 40.0
"""Requests/s on an A100-80G between which capacities are looked for."""
PRECISION = 1.02
"""A capacity is known when the rate that was kept and the one that was not differ by less than this factor."""
LOADS = (0.8, 1.0)
"""Of the static scheme's capacity: where all three are measured on the same arrivals."""

Place = tuple[str, int]
"""A scheme and a seed."""


def measure(pool: Pool, gpu: Preset, seeds: Sequence[int], quick: bool) -> dict[str, Any]:
    """The document of the table."""
    scenario = on("mixed", gpu, quick=False)
    phase = replace(scenario.phases[0], seconds=SECONDS / (2.0 if quick else 1.0))
    scenario = replace(scenario, phases=(phase,))
    scale = phase.streams[0].rate / SCENARIOS["mixed"]().phases[0].streams[0].rate
    found = _capacities(pool, scenario, gpu, seeds, (SLOWEST * scale, FASTEST * scale))
    base = interval.mean([found["static 8", seed][0] for seed in seeds])
    rates = {f"{load:g}": load * base for load in LOADS}
    jobs = [(load, name, seed) for load in rates for name in SCHEMES for seed in seeds]
    runs = pool.scores(_job(scenario, gpu, name, seed, rates[load]) for load, name, seed in jobs)
    scores = dict(zip(jobs, runs, strict=True))
    return {
        "table": "batching",
        "gpu": gpu.name,
        "what": scenario.what,
        "clock": "virtual",
        "quick": quick,
        "seeds": list(seeds),
        "kept_ratio": KEPT_RATIO,
        "seconds": scenario.seconds,
        "rates": rates,
        "schemes": {
            name: _scheme(
                [found[name, seed] for seed in seeds],
                [found["static 8", seed][0] for seed in seeds],
                {load: [scores[load, name, seed] for seed in seeds] for load in rates},
            )
            for name in SCHEMES
        },
    }


def _job(scenario: Scenario, gpu: Preset, name: str, seed: int, rate: float) -> Job:
    phase = scenario.phases[0]
    at_rate = replace(phase, streams=(replace(phase.streams[0], rate=rate),))
    return Job(replace(scenario, phases=(at_rate,)), gpu, SCHEMES[name], seed)


def _capacities(
    pool: Pool, scenario: Scenario, gpu: Preset, seeds: Sequence[int], between: tuple[float, float]
) -> dict[Place, tuple[float, Score]]:
    """The highest rate that was kept and the run that shows it, all places a step at a time."""
    places = [(name, seed) for name in SCHEMES for seed in seeds]
    first = pool.scores(_job(scenario, gpu, *place, between[0]) for place in places)
    best = {place: (between[0], score) for place, score in zip(places, first, strict=True)}
    highest = dict.fromkeys(places, between[1])
    while open_places := [place for place in places if highest[place] > PRECISION * best[place][0]]:
        rates = [math.sqrt(best[place][0] * highest[place]) for place in open_places]
        jobs = [_job(scenario, gpu, *place, rate) for place, rate in zip(open_places, rates, strict=True)]
        for place, rate, score in zip(open_places, rates, pool.scores(jobs), strict=True):
            if score.good_ratio_after_30s >= KEPT_RATIO:
                best[place] = (rate, score)
            else:
                highest[place] = rate
    return best


def _scheme(
    found: Sequence[tuple[float, Score]], static: Sequence[float], at: Mapping[str, Sequence[Score]]
) -> dict[str, Any]:
    rates, scores = [rate for rate, _ in found], [score for _, score in found]
    ratio, half = interval.ratio(rates, static)
    return {
        "qps": interval.mean(rates),
        "qps_half95": interval.half_width(rates),
        "qps_ratio": ratio,
        "qps_ratio_half95": half,
        "at_capacity": _figures(scores),
        "at_load": {load: _figures(some) for load, some in at.items()},
    }


def _figures(scores: Sequence[Score]) -> dict[str, float | None]:
    """Means over the seeds."""
    names = ("p99_e2e_s", "p99_ttft_s", "p99_itl_s", "qps_per_w", "power_w", "fragmentation", "hit_rate", "good_ratio")
    each = [score.to_json() for score in scores]
    return {name: _mean([one[name] for one in each]) for name in names}


def _mean(values: Sequence[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return interval.mean(known) if known else None
