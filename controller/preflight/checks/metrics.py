"""vLLM's exporter answers and carries what the seeds watch.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from controller.preflight.result import FAIL, PASS, UNKNOWN, WARN, Check, Found, NotKnown
from controller.preflight.surroundings import Surroundings
from domain.readings.vllm import VllmReading


def _look(around: Surroundings) -> Found:
    engine, url = around.engine, around.settings.engine.url
    if engine.metrics_error is not None:
        return Found(FAIL, str(engine.metrics_error), f"curl -sS {url}/metrics | grep -c '^vllm:'")
    if engine.reading is None:
        raise NotKnown("vLLM's metrics were not asked for")
    missing = [f"{seeds} ({ours})" for seeds, ours, there in _wanted(engine.reading) if not there]
    if missing:
        cure = "restart vLLM without --disable-log-stats"
        return Found(WARN, f"{url}/metrics has nothing for {', '.join(missing)}", cure)
    return Found(PASS, f"{url}/metrics carries all of them, from {len(engine.reading.series)} series")


def _wanted(reading: VllmReading) -> list[tuple[str, str, bool]]:
    return [
        ("gpu_mem_usage", "vllm:kv_cache_usage_perc", reading.kv_cache_usage_ratio is not None),
        ("batch_size_current", "vllm:num_requests_running", reading.running is not None),
        ("cache_hit_rate", "vllm:prefix_cache_queries", reading.prefix_cache_queries is not None),
        ("latency", "vllm:e2e_request_latency_seconds", bool(reading.latencies)),
    ]


CHECK = Check(
    "metrics",
    "vLLM's /metrics is reachable and carries engine data: memory, batch size, cache hits, latencies",
    "seed 1, checklist before deployment 2; seed 2, deployment checklist 10",
    frozenset({PASS, WARN, FAIL, UNKNOWN}),
    _look,
)
