"""The seeds' second table: how latency, memory, fragmentation and utilisation grow with the load.

Belongs here: at which rates, and which figures. Never: a contender's settings, the seeds' own figures (bench/tables).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bench.compare import interval
from bench.compare.contenders import STEERED
from bench.compare.pool import Pool
from bench.compare.run import Job
from bench.compare.scenarios import on
from bench.compare.score import Score
from bench.emulated_gpu.presets import Preset

RATES = (10.0, 30.0, 50.0, 100.0)
"""The seeds', requests a second."""
CONTENDERS = ("vllm_default", "model")
SECONDS = 60.0
FIGURES = (
    *("p99_e2e_s", "p99_ttft_s", "kv_usage", "fragmentation", "busy_ratio", "rejected_ratio", "preemptions"),
    *("good_ratio", "qps_mean", "power_w", "j_per_token"),
)


def measure(pool: Pool, gpu: Preset, seeds: Sequence[int], quick: bool) -> dict[str, Any]:
    """The document of the table: the mixed load of the first table, at the rates of the second."""
    mixed = on("mixed", gpu)
    phase = replace(mixed.phases[0], seconds=SECONDS / (2.0 if quick else 1.0))

    def job(rate: float, name: str, seed: int) -> Job:
        at_rate = replace(phase, streams=(replace(phase.streams[0], rate=rate),))
        return Job(replace(mixed, phases=(at_rate,)), gpu, STEERED[name], seed)

    places = [(rate, name) for rate in RATES for name in CONTENDERS]
    scores = pool.scores([job(rate, name, seed) for rate, name in places for seed in seeds])
    by_place = {place: scores[n * len(seeds) : (n + 1) * len(seeds)] for n, place in enumerate(places)}
    return {
        "table": "load",
        "gpu": gpu.name,
        "what": mixed.what,
        "quick": quick,
        "seeds": list(seeds),
        "kv_gb": gpu.kv_gb,
        "rates": {f"{rate:g}": {name: _figures(by_place[rate, name]) for name in CONTENDERS} for rate in RATES},
    }


def _figures(scores: Sequence[Score]) -> dict[str, float | None]:
    """Means over the seeds."""
    each = [score.to_json() for score in scores]
    known = {name: [one[name] for one in each if one[name] is not None] for name in FIGURES}
    return {name: interval.mean(values) if values else None for name, values in known.items()}  # type: ignore[arg-type]
