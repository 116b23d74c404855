"""A vLLM's `/metrics` for latencies that are given to it, rendered by prometheus_client as vLLM renders its own.

Belongs here: vLLM's series and bucket bounds. Never: what the latencies are, HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from domain.slo import Latency

FAMILIES = {
    Latency.TTFT: ("vllm:time_to_first_token_seconds", "time_to_first_token"),
    Latency.ITL: ("vllm:inter_token_latency_seconds", "inter_token_latency"),
    Latency.E2E: ("vllm:e2e_request_latency_seconds", "request_latency"),
}
"""Series and, for `--custom-histogram-buckets`, the family that its bounds belong to."""
VLLM_BOUNDS: Mapping[Latency, tuple[float, ...]] = {
    Latency.TTFT: (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
                   40.0, 80.0, 160.0, 640.0, 2560.0),
    Latency.ITL: (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
                  80.0),
    Latency.E2E: (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
                  960.0, 1920.0, 7680.0),
}  # fmt: skip
"""vLLM 0.32's own bounds, seconds."""
_LABELS = {"model_name": "tiny", "engine": "0"}


def with_bound(latency: Latency, bound_s: float) -> tuple[float, ...]:
    """vLLM's bounds and one more, as an operator gives them to `--custom-histogram-buckets`."""
    return tuple(sorted({*VLLM_BOUNDS[latency], bound_s}))


class Exposition:
    """One engine's series. `observe` what completed, `render` what a scrape answers."""

    def __init__(self, bounds: Mapping[Latency, tuple[float, ...]]) -> None:
        self._registry = CollectorRegistry()
        names = tuple(_LABELS)
        for name in ("running", "waiting"):
            Gauge(f"vllm:num_requests_{name}", name, names, registry=self._registry).labels(**_LABELS).set(8)
        Gauge("vllm:kv_cache_usage_perc", "share", names, registry=self._registry).labels(**_LABELS).set(0.5)
        success = Counter("vllm:request_success", "finished", (*names, "finished_reason"), registry=self._registry)
        self._finished = success.labels(**_LABELS, finished_reason="length")
        tokens = Counter("vllm:generation_tokens", "tokens", names, registry=self._registry)
        self._tokens = tokens.labels(**_LABELS)
        self._histograms = {
            latency: Histogram(FAMILIES[latency][0], "seconds", names, buckets=bounds[latency], registry=self._registry)
            .labels(**_LABELS)
            for latency in FAMILIES
        }  # fmt: skip

    def observe(self, latencies: Mapping[Latency, list[float]]) -> None:
        """Requests that completed since the scrape before; one per end-to-end latency."""
        for latency, values_s in latencies.items():
            for value_s in values_s:
                self._histograms[latency].observe(value_s)
        self._finished.inc(len(latencies.get(Latency.E2E, ())))
        self._tokens.inc(len(latencies.get(Latency.ITL, ())))

    def render(self) -> str:
        """The text format."""
        return generate_latest(self._registry).decode()
