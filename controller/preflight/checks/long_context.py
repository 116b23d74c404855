"""Prompts past 8k tokens have a CPU to put their KV on.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from itertools import pairwise

from controller.preflight.looking import prompts
from controller.preflight.result import PASS, UNKNOWN, WARN, Check, Found
from controller.preflight.surroundings import Surroundings
from domain.histogram import Histogram

LONG, LONGEST = 8192, 16384
CURE = "vllm serve MODEL --kv-offloading-size 16"


def _look(around: Surroundings) -> Found:
    found = prompts(around)
    offload = around.engine.cache_config.get("kv_offloading_size", "None")
    long, longest = _surely_above(found, LONG), _surely_above(found, LONGEST)
    told = f"{long:g} of {found.samples:g} prompts were surely past {LONG} tokens"
    if longest:
        return Found(WARN, f"{told}, {longest:g} past {LONGEST}, where the seeds' method ends", CURE)
    if long and offload in ("None", "0", "0.0"):
        return Found(WARN, f"{told}, and KV is not offloaded to the CPU", CURE)
    return Found(PASS, f"{told}; KV offload: {offload}")


def _surely_above(histogram: Histogram, length: float) -> float:
    """Those in the buckets that begin there or later."""
    steps = pairwise(zip(histogram.bounds, histogram.counts, strict=True))
    return next((histogram.samples - below for (bound, below), _ in steps if bound >= length), 0.0)


CHECK = Check(
    "long_context",
    "prompts of 8k to 16k tokens come with CPU offload, and none is longer",
    "seed 1, applicability 3",
    frozenset({PASS, WARN, UNKNOWN}),
    _look,
)
