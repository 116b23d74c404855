"""Latencies that are known because they are drawn: five shapes, from a seed.

Belongs here: the draws and the objectives. Never: buckets, scraping, estimates.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from domain.slo import Latency, Slo

TYPICAL_S: Mapping[Latency, float] = {Latency.TTFT: 0.4, Latency.ITL: 0.035, Latency.E2E: 2.2}
"""What the shapes are scaled with."""
OBJECTIVES = (
    Slo(Latency.TTFT, percentile=99, bound_s=2.0),
    Slo(Latency.ITL, percentile=95, bound_s=0.08),
    Slo(Latency.E2E, percentile=99, bound_s=8.0),
)
"""None of these is one of vLLM's own bucket bounds."""

Draw = Callable[[random.Random, float], float]


@dataclass(frozen=True, slots=True)
class Shape:
    """One distribution; `draw` takes the typical latency in seconds."""

    name: str
    says: str
    draw: Draw


def _lognormal(chance: random.Random, typical_s: float) -> float:
    return typical_s * chance.lognormvariate(0.0, 0.7)


def _bimodal(chance: random.Random, typical_s: float) -> float:
    slow = chance.random() < 0.12
    return typical_s * (chance.uniform(4.0, 6.5) if slow else chance.uniform(0.4, 0.9))


def _heavy(chance: random.Random, typical_s: float) -> float:
    return typical_s * 0.5 * chance.paretovariate(1.6)


def _one_bucket(chance: random.Random, typical_s: float) -> float:
    return typical_s * chance.uniform(1.26, 1.40)  # inside 0.5..0.75, 0.025..0.05 and 2.5..5 s


def _beyond(chance: random.Random, typical_s: float) -> float:
    stuck = chance.random() < 0.03
    return typical_s * chance.uniform(7e3, 9e3) if stuck else _lognormal(chance, typical_s)


SHAPES = (
    Shape("lognormal", "one hump with a tail", _lognormal),
    Shape("bimodal", "12 % are five to ten times slower", _bimodal),
    Shape("heavy tail", "Pareto, exponent 1.6", _heavy),
    Shape("one bucket", "all in one of vLLM's buckets", _one_bucket),
    Shape("last bucket", "3 % above the highest finite bound", _beyond),
)
