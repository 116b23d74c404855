"""How an objective stands: the share over its bound against sampling noise, and whether queue or inference breaks it.

Belongs here: that judgement of one view, which every policy shares. Never: what is done about it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from domain.slo import Latency, Slo
from domain.view import View

MIN_BREACH_SAMPLES = 20
"""A breach is acted on from here on if it is beyond noise: cutting on little evidence is the safe side, growing is
not.
"""
ONE_SIDED_95 = 1.645
"""Standard normal quantile: a share counts as over the allowed one only beyond sampling noise at 95 % confidence."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One objective, and whose breach it is."""

    slo: Slo
    over_ratio: float | None
    samples: float
    independent: float
    """How many of the samples say something of their own: one engine step gives all that run the same latency."""
    queue_bound: bool | None
    """None: unknown, then the breach is nobody's: neither a reason to shrink nor leave to grow."""

    @property
    def measured(self) -> bool:
        """There are samples enough to cut by."""
        return self.over_ratio is not None and self.samples >= MIN_BREACH_SAMPLES

    @property
    def breached(self) -> bool:
        """Beyond sampling noise."""
        if self.over_ratio is None or not self.measured:
            return False
        allowed = self.slo.allowed_ratio
        return self.over_ratio > allowed + ONE_SIDED_95 * math.sqrt(allowed * (1 - allowed) / self.independent)

    @property
    def excess(self) -> float:
        """Share over the bound, in units of the allowed one."""
        return (self.over_ratio or 0.0) / max(self.slo.allowed_ratio, 1e-9)

    def describe(self) -> str:
        """The numbers, as a clause."""
        share = "unknown" if self.over_ratio is None else f"{self.over_ratio:.1%}"
        return (
            f"{share} of {self.samples:.0f} {self.slo.latency} samples are over {self.slo.bound_s * 1000:.4g} ms "
            f"({self.slo.allowed_ratio:.1%} allowed)"
        )


def judge(view: View, slo: Slo) -> Verdict:
    """Whose breach it is. A smaller batch makes the queue longer, so it is inference's only where most of the latency
    is spent running and inference alone would break the bound too.
    """
    over, samples = view.over_ratio(slo), view.samples(slo.latency)
    if slo.latency is Latency.ITL:
        at_once = max((core.running for core in view.runtime.cores), default=1) if view.runtime else 1
        return Verdict(slo, over, samples, samples / max(1, at_once), queue_bound=False)
    if slo.latency is Latency.TTFT:
        return Verdict(slo, over, samples, samples, queue_bound=True)
    queue, inference = view.latencies.get(Latency.QUEUE), view.latencies.get(Latency.INFERENCE)
    queue_s, inference_s = (h.mean if h is not None else None for h in (queue, inference))
    alone = inference.fraction_above(slo.bound_s) if inference is not None else None
    queue_bound = None
    if queue_s is not None and inference_s is not None and alone is not None:
        queue_bound = queue_s > inference_s or alone <= slo.allowed_ratio
    return Verdict(slo, over, samples, samples, queue_bound)
