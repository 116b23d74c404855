"""Algorithm `seed`: the seeds' rule to the letter, for comparison.

P99 over the SLA: x0.9. GPU under 75 % and fragmentation under 10 %: x1.5, at most the hardware's limit. Else hold.
Belongs here: that rule and nothing that makes it safe.
"""

from __future__ import annotations

import math

from domain.decision import Reason
from domain.slo import Latency
from policies.batch_resize.scene import Answer, Scene

P99 = 0.99


def decide(scene: Scene) -> Answer:
    """The rule; it abstains where a number that it compares is unknown."""
    s, view, cap = scene.settings.seed, scene.view, scene.cap
    bounds = [slo.bound_s for slo in view.slos if slo.latency is Latency.E2E]
    sla_s = s.sla_s if s.sla_s is not None else min(bounds, default=None)
    histogram = view.latencies.get(Latency.E2E)
    p99_s = histogram.quantile(P99) if histogram is not None else None
    if sla_s is None or p99_s is None:
        what = "P99 end-to-end latency" if p99_s is None else "its bound, seed.sla_s or an end-to-end objective,"
        return Answer(None, Reason.ABSTAIN_UNKNOWN, f"No proposal: {what} is not known.")
    beyond = histogram is not None and histogram.saturated(P99)  # past the last bound: it is more than p99_s
    p99 = f"P99 is {'over ' if beyond else ''}{p99_s:.3g} s (SLA {sla_s:.3g} s)"
    if p99_s > sla_s or (beyond and p99_s == sla_s):
        lowest = scene.knob.minimum if scene.knob.minimum is not None else 1.0
        wanted = max(lowest, math.floor(cap * s.shrink_factor))
        if wanted >= cap:
            return Answer(cap, Reason.HOLD_AT_FLOOR, f"Holding {cap:.0f}, the engine's minimum: {p99}.")
        return Answer(wanted, Reason.SHRINK_P99, f"Shrinking {cap:.0f} -> {wanted:.0f}: {p99}.")
    busy, split = view.gpu_utilization_ratio, view.memory_fragmentation_ratio
    if busy is None or split is None:
        what = "GPU utilisation" if busy is None else "memory fragmentation"
        return Answer(cap, Reason.ABSTAIN_UNKNOWN, f"Holding {cap:.0f}: {p99}, {what} is not known.")
    figures = f"{p99}, GPU {busy:.0%} used, memory {split:.0%} fragmented"
    if busy < s.idle_gpu_ratio and split < s.max_fragmentation_ratio:
        wanted = min(math.ceil(cap * s.growth_factor), scene.rungs[-1])
        if wanted > cap:
            return Answer(wanted, Reason.GROW_IDLE_GPU, f"Growing {cap:.0f} -> {wanted:.0f}: {figures}.")
        return Answer(cap, Reason.HOLD_AT_LIMIT, f"Holding {cap:.0f}, the hardware's limit: {figures}.")
    return Answer(cap, Reason.HOLD_STEADY, f"Holding {cap:.0f}: {figures}.")
