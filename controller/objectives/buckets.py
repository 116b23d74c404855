"""Where vLLM's histograms should have a bound, so that a share of requests over an objective is counted, not estimated.

Belongs here: finding the objectives that no bound lies on, and the flag that puts one there. Never: saying so.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from domain.histogram import Histogram
from domain.slo import Latency, Slo

FAMILIES: Mapping[Latency, str] = {
    Latency.TTFT: "time_to_first_token",
    Latency.ITL: "inter_token_latency",
    Latency.E2E: "request_latency",
    Latency.QUEUE: "request_latency",
    Latency.INFERENCE: "request_latency",
}
"""What `--custom-histogram-buckets` calls the histograms (vllm/v1/metrics/buckets.py); a family has one list."""
FLAG_SINCE = (0, 32)


def off_bounds(slos: Sequence[Slo], histograms: Mapping[Latency, Histogram]) -> tuple[Slo, ...]:
    """The objectives that lie between two bounds, or past the last."""
    return tuple(slo for slo in slos if slo.latency in histograms and slo.bound_s not in histograms[slo.latency].bounds)


def recommended(slos: Sequence[Slo], histograms: Mapping[Latency, Histogram]) -> str:
    """The value of `--custom-histogram-buckets`: the bounds there are and the objectives', of each family concerned."""
    wanted: dict[str, set[float]] = {}
    for slo in slos:
        histogram = histograms.get(slo.latency)
        there = histogram.bounds if histogram is not None else ()
        bounds = wanted.setdefault(FAMILIES[slo.latency], set())
        bounds.update({slo.bound_s, *(bound for bound in there if math.isfinite(bound))})
    return json.dumps({family: sorted(bounds) for family, bounds in sorted(wanted.items())})


def warning(off: Sequence[Slo], every: Sequence[Slo], histograms: Mapping[Latency, Histogram], version: str) -> str:
    """Which objectives lie on no bound, and what puts bounds there, of `every` objective of the same latencies."""
    names = ", ".join(_between(slo, histograms[slo.latency]) for slo in off)
    concerned = {slo.latency for slo in off}
    flag = recommended([slo for slo in every if slo.latency in concerned], histograms)
    told = f"the share of samples over {names} is estimated, because no bucket bound of vLLM lies there"
    if takes_flag(version):
        return f"{told}; start vLLM with --custom-histogram-buckets '{flag}' to have it counted"
    return f"{told}; vLLM {version} cannot have other buckets, 0.32 takes --custom-histogram-buckets '{flag}'"


def takes_flag(version: str) -> bool:
    """Whether this vLLM has the flag. A build from source without tags calls itself 0.1.dev: taken for a new one."""
    found = re.match(r"(\d+)\.(\d+)", "" if version.startswith("0.1.dev") else version)
    return found is None or (int(found[1]), int(found[2])) >= FLAG_SINCE


def _between(slo: Slo, histogram: Histogram) -> str:
    bounds = (0.0, *histogram.bounds)
    low, high = next(((a, b) for a, b in pairwise(bounds) if a < slo.bound_s < b), (bounds[-1], math.inf))
    return f"{slo.latency} {slo.bound_s:g} s (between {low:g} and {high:g} s)"
