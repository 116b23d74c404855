"""The questions in PromQL.

Belongs here: every expression that is sent, built from exact names of series and an operator's label matchers. Never:
a regular expression over names (it answers the wrong series, or HTTP 400), sending.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from controller.sensors.vllm.names import COUNTERS, LATENCIES
from domain.slo import Latency

REQUESTS = COUNTERS["requests_finished"].names
E2E_BUCKETS = tuple(f"{name}_bucket" for name in LATENCIES[Latency.E2E].names)

DAY_AGO = " offset 1d"
STEP_S = 15
"""How finely the hour is looked at."""


def long_windows(selector: str) -> Mapping[str, str]:
    """One query for each number of `LongWindows`, by the field's name.

    The mean is over the time that was scraped: PromQL's rate over the whole hour would count an hour of which only ten
    minutes were scraped as fifty minutes without a request.
    """
    peak = _newest(REQUESTS, lambda name: f"sum(rate({series(name, selector)}[1m]))")
    mean, yesterday = _mean_rate(selector), _mean_rate(selector, DAY_AGO)
    p99 = _p99(selector)
    return {
        "requests_per_s_mean": mean,
        "requests_per_s_peak": f"max_over_time(({peak})[1h:{STEP_S}s])",
        "e2e_p99_s": p99,
        "requests_per_s_day_ratio": f"{mean} / {yesterday}",
        "e2e_p99_day_ratio": f"{p99} / {_p99(selector, DAY_AGO)}",
    }


def servers(selector: str) -> str:
    """How many scrape targets the selector picks now: more than one, and sums would be those of a fleet."""
    return f"count(count by (job, instance) ({_newest(REQUESTS, lambda name: series(name, selector))}))"


CLOCK = "vector(time())"
"""The server's own time: its samples carry that, and this machine's may differ."""


def _mean_rate(selector: str, offset: str = "") -> str:
    finished = _newest(REQUESTS, lambda name: f"sum(increase({series(name, selector)}[1h]{offset}))")
    there = _newest(REQUESTS, lambda name: f"sum({series(name, selector)})")
    return f"(({finished}) / ({STEP_S} * count_over_time(({there})[1h:{STEP_S}s]{offset})))"


def _p99(selector: str, offset: str = "") -> str:
    buckets = _newest(E2E_BUCKETS, lambda name: f"sum by (le) (rate({series(name, selector)}[1h]{offset}))")
    return f"histogram_quantile(0.99, {buckets})"


def _newest(names: Sequence[str], expression: Callable[[str], str]) -> str:
    """The first name that has series; two names of one thing are never summed."""
    return " or ".join(expression(name) for name in names)


def series(name: str, selector: str) -> str:
    """One series as it is."""
    return f"{name}{{{selector}}}" if selector else name
