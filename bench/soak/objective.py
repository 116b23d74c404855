"""The objective that the soak steers by, chosen from what this machine just showed with few and with many clients.

Belongs here: the short measurement before the daemon starts. Never: the rule that picks the bound (bench/demo/plan.py).
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bench.demo import plan as demo_plan
from bench.demo.meter import Meter
from bench.demo.plan import Objective
from bench.load import LoadError
from bench.soak.crowd import Crowd
from bench.soak.plan import FIRST_CLIENTS, MANY_CLIENTS
from domain.histogram import Histogram

WARM_UP_S = 2.0
MEASURE_S = 5.0
TTFT_BOUND_S = 2.0
SLACK = 2.0
"""Where few and many clients do not differ, the bound is so many times the median with few."""
PERCENTILE = 90.0


async def choose(crowd: Crowd, meter: Meter) -> Objective:
    """Few clients keep it and many miss it, where this machine tells them apart. Raises LoadError without answers."""
    small = await _measure(crowd, meter, FIRST_CLIENTS)
    large = await _measure(crowd, meter, MANY_CLIENTS)
    await crowd.become(FIRST_CLIENTS)
    median_s = small.quantile(0.5) if small is not None else None
    if small is None or large is None or median_s is None:
        raise LoadError("cannot choose an objective: the engine counted no tokens under load; see vllm.log")
    found = demo_plan.objective(small, large)
    return found or Objective(PERCENTILE, next(bound for bound in small.bounds if bound >= SLACK * median_s))


async def _measure(crowd: Crowd, meter: Meter, clients: int) -> Histogram | None:
    await crowd.become(clients)
    await asyncio.sleep(WARM_UP_S)
    begin_s = time.monotonic()
    await meter.read()
    await asyncio.sleep(MEASURE_S)
    await meter.read()
    return meter.itl(begin_s, time.monotonic())


def as_settings(objective: Objective) -> dict[str, Any]:
    """The daemon's table `[slo]`."""
    return {
        "inter_token_latency": {"percentile": objective.percentile, "bound_s": objective.bound_s},
        "time_to_first_token": {"bound_s": TTFT_BOUND_S},
    }
