"""Service level objectives: which latency, which percentile, which bound.

Belongs here: the objective as a value. Never: how the latency is measured or what is done about a breach.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Latency(StrEnum):
    """The latencies that vLLM exports as histograms, by vLLM's own names."""

    TTFT = "time_to_first_token"
    ITL = "inter_token_latency"
    E2E = "e2e_request_latency"
    QUEUE = "request_queue_time"
    INFERENCE = "request_inference_time"


@dataclass(frozen=True, slots=True)
class Slo:
    """`percentile` percent of the samples of `latency` lie at or under `bound_s` seconds."""

    latency: Latency
    percentile: float
    bound_s: float
    proposed: bool = False
    """Nobody configured it: the daemon proposed it from how the engine served when little was asked of it."""

    @property
    def allowed_ratio(self) -> float:
        """Share of samples that may lie above the bound: 0.05 at the 95th percentile."""
        return 1.0 - self.percentile / 100.0
