"""What the policies see: one frozen picture of now, with rates and windows already worked out.

Belongs here: values a policy may rest a decision on. Never: the history they came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.histogram import Histogram
from domain.runtime import EngineRuntime
from domain.slo import Latency, Slo


@dataclass(frozen=True, slots=True)
class View:
    """`now_s` is monotonic seconds. None means unknown; a policy that needs an unknown value abstains."""

    now_s: float
    runtime: EngineRuntime | None = None
    kv_cache_usage_ratio: float | None = None
    requests_per_s: float | None = None
    preemptions_per_s: float | None = None
    gpu_utilization_ratio: float | None = None
    window_s: float = 0.0
    """Length of the window that rates and latencies rest on; it never reaches back before the last change."""
    latencies: Mapping[Latency, Histogram] = field(default_factory=dict)
    """What completed inside the window."""
    slos: tuple[Slo, ...] = ()

    def over_ratio(self, slo: Slo) -> float | None:
        """Share of samples above the objective's bound in the window; None without samples."""
        histogram = self.latencies.get(slo.latency)
        return None if histogram is None else histogram.fraction_above(slo.bound_s)

    def samples(self, latency: Latency) -> float:
        """How many samples the window holds: the evidence behind a quantile or share."""
        histogram = self.latencies.get(latency)
        return 0.0 if histogram is None else histogram.samples
