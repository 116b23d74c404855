"""What vLLM calls its series, from 0.11 to 0.33.

Belongs here: which series each value of a reading comes from, newest name first. Never: reading them.

Names are those of the lines, so a counter's has its `_total`. Where two of the names are there at once (vLLM shows an
old one beside the new one for some versions) the newest is read and the other left: they count the same thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from domain.slo import Latency


@dataclass(frozen=True, slots=True)
class Series:
    """The names one value has had; with `having`, of the rows alone that have one of these labels, and never of those
    that have one of `lacking`.
    """

    names: tuple[str, ...]
    having: frozenset[tuple[str, str]] = frozenset()
    lacking: frozenset[tuple[str, str]] = frozenset()


# One number per engine core, by the label `engine`.
GAUGES: Mapping[str, Series] = {
    "running": Series(("vllm:num_requests_running",)),
    "waiting": Series(("vllm:num_requests_waiting",)),
    "deferred": Series(("vllm:num_requests_waiting_by_reason",), frozenset({("reason", "deferred")})),  # 0.20
    "kv_cache_usage_ratio": Series(("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")),
}
WORST_OF_ENGINES = frozenset({"kv_cache_usage_ratio"})
"""Of these the fullest engine core counts; all others are summed."""

# 1: this engine core serves; 0: it sleeps. The states beside `awake` only say how deep.
AWAKE = Series(("vllm:engine_sleep_state",), frozenset({("sleep_state", "awake")}))

COUNTERS: Mapping[str, Series] = {
    "preemptions": Series(("vllm:num_preemptions_total",)),
    "requests_finished": Series(("vllm:request_success_total",)),
    "requests_failed": Series(
        ("vllm:request_success_total",), frozenset({("finished_reason", "error"), ("finished_reason", "abort")})
    ),
    "requests_rejected": Series(("vllm:admission_rejections_total",)),  # 0.32
    "prompt_tokens": Series(("vllm:prompt_tokens_total",)),
    "generation_tokens": Series(("vllm:generation_tokens_total",)),
    "prefix_cache_queries": Series(("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")),
    "prefix_cache_hits": Series(("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")),
    # Not vLLM's own: prometheus-fastapi-instrumentator in its API server adds up what Content-Length says. What the
    # plugin answers this daemon is no client's traffic.
    "response_bytes": Series(("http_response_size_bytes_sum",), lacking=frozenset({("handler", "/governor/v1")})),
}

# Without the endings _bucket and _sum.
LATENCIES: Mapping[Latency, Series] = {
    Latency.TTFT: Series(("vllm:time_to_first_token_seconds",)),
    Latency.ITL: Series(("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")),
    Latency.E2E: Series(("vllm:e2e_request_latency_seconds",)),
    Latency.QUEUE: Series(("vllm:request_queue_time_seconds",)),
    Latency.INFERENCE: Series(("vllm:request_inference_time_seconds",)),
}
LENGTHS: Mapping[str, Series] = {
    "prompt_lengths": Series(("vllm:request_prompt_tokens",)),
    "output_lengths": Series(("vllm:request_generation_tokens",)),
}

WANTED: frozenset[str] = frozenset(
    [name for one in (*GAUGES.values(), AWAKE, *COUNTERS.values()) for name in one.names]
    + [
        name + ending
        for one in (*LATENCIES.values(), *LENGTHS.values())
        for name in one.names
        for ending in ("_bucket", "_sum")
    ]
)
"""Every name that a line may have to be read; all others are passed over, however many there are."""
