"""Small builders of domain values for tests."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from domain.histogram import Histogram
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from domain.runtime import EngineCore, EngineRuntime, Knob, Support
from domain.slo import Latency, Slo
from domain.snapshot import Source
from domain.view import View

ITL_SLO = Slo(Latency.ITL, percentile=95, bound_s=0.05)


def runtime(
    cap: float | None = 8,
    running: int = 8,
    waiting: int = 20,
    maximum: float = 64,
    boot_id: str = "boot-a",
    generation: int = 0,
    cores: int = 1,
    budget: float = 2048,
) -> EngineRuntime:
    """An engine with an admission cap (None: switched off) and a token budget."""
    cap_knob = Knob(MAX_NUM_SEQS, cap, maximum, 1, maximum, Support.NATIVE)
    if cap is None:
        cap_knob = Knob(MAX_NUM_SEQS, None, None, None, None, Support.OFF, "custom scheduler")
    knobs = {
        MAX_NUM_SEQS: cap_knob,
        MAX_NUM_BATCHED_TOKENS: Knob(MAX_NUM_BATCHED_TOKENS, budget, 2048, 64, 2048, Support.NATIVE),
    }
    core = [EngineCore(i, boot_id, generation, running, waiting, knobs, 14.0, 0, {}) for i in range(cores)]
    return EngineRuntime(boot_id, generation, "0.32.0", "0.1.0", tuple(core))


def knob(name: str, value: float | None, startup: float | None, low: float | None, high: float | None) -> Knob:
    """A knob that the engine carries natively."""
    return Knob(name, value, startup, low, high, Support.NATIVE)


def with_knobs(base: EngineRuntime, *knobs: Knob) -> EngineRuntime:
    """The same engine with these knobs added or replaced on every core."""
    added = {one.name: one for one in knobs}
    return replace(base, cores=tuple(replace(core, knobs={**core.knobs, **added}) for core in base.cores))


def samples(total: float, over: float, bound_s: float = 0.05, mean_s: float = 0.01) -> Histogram:
    """`total` samples of which `over` lie above `bound_s`."""
    return Histogram((bound_s, math.inf), (total - over, total), total * mean_s)


def view(now_s: float = 100.0, **changes: Any) -> View:
    """A busy engine with room and no objective."""
    values: dict[str, Any] = {
        "runtime": runtime(),
        "kv_cache_usage_ratio": 0.2,
        "requests_per_s": 50.0,
        "preemptions_per_s": 0.0,
        "window_s": 3.0,
        "ages_s": {Source.METRICS: 0.0, Source.RUNTIME: 0.0},
    }
    return View(now_s=now_s, **(values | changes))
