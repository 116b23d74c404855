"""The signals that a person asks for first, where all of them would be too many.

Belongs here: their names. Never: their meaning (domain/view.py).
"""

from __future__ import annotations

MAIN_SIGNALS = (
    "requests_per_s",
    "generation_tokens_per_s",
    "running",
    "waiting",
    "oldest_waiting_s",
    "goodput_ratio",
    "kv_cache_usage_ratio",
    "cache_hit_ratio",
    "preemptions_per_s",
    "rejected_ratio",
    "gpu_utilization_ratio",
    "gpu_memory_usage_ratio",
    "gpu_power_w",
    "joules_per_token",
)
