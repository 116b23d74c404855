"""The rules that are shipped. Numbers without another word are the seeds'.

Belongs here: rules on the engine and its GPUs as data. Never: rules on the daemon itself (selfchecks), how rules are
evaluated.
"""

from __future__ import annotations

from domain.alert import Condition, Rule, Severity
from policies.alert_thresholds import selfchecks
from policies.alert_thresholds.making import ABOVE, BELOW, FIVE_MINUTES_S, Subject, about, row

LOADED = (Condition("demand", ABOVE, 0.0),)
"""Under load: somebody waits for room."""

_MEMORY = about(
    Subject.MEMORY,
    row(
        "gpu_memory",
        Condition("effective_memory_ratio", ABOVE, 0.90),
        0.87,
        FIVE_MINUTES_S,
        Severity.WARNING,
        "GPU memory without the idle part of the KV cache is nearly used up. A full KV cache alone may do that.",
    ),
    row(
        "emergency",
        Condition("emergency", ABOVE, 0.0),
        0.0,
        0.0,
        Severity.CRITICAL,
        "The engine is under real pressure and emergency_purge acts.",
    ),
    row(
        "memory_fragmentation",
        Condition("memory_fragmentation_ratio", ABOVE, 0.35),
        0.30,
        60.0,
        Severity.WARNING,
        "Over a third of the memory that is allocated is empty.",
    ),
    row(
        "memory_fragmentation_growth",
        Condition("memory_fragmentation_ratio", ABOVE, 0.30),
        0.20,
        0.0,
        Severity.WARNING,
        "Fragmentation grew by 30 points within five minutes.",
        rise_over_s=FIVE_MINUTES_S,
    ),
    row(
        "kv_cache_full",
        Condition("kv_cache_usage_ratio", ABOVE, 0.95),
        0.90,
        60.0,
        Severity.WARNING,
        "The KV cache of the fullest engine core is full.",
    ),
    row(
        "kv_reallocations",
        Condition("reallocations_per_s", ABOVE, 5.0),
        4.0,
        60.0,
        Severity.WARNING,
        "KV contents are thrown away and computed again.",
    ),
)

_LOAD = about(
    Subject.LOAD,
    row(
        "rejected_requests",
        Condition("rejected_ratio", ABOVE, 0.01),
        0.005,
        30.0,
        Severity.WARNING,
        "Requests are turned away at the queue limit.",
    ),
    row(
        "rejected_requests_slo",
        Condition("rejected_ratio", ABOVE, 0.005),
        0.0025,
        30.0,
        Severity.INFO,
        "More requests are turned away than a load test may see.",
    ),
    row(
        "cache_hit_rate",
        Condition("cache_hit_ratio", BELOW, 0.60),
        0.65,
        FIVE_MINUTES_S,
        Severity.INFO,
        "Few prompts begin like earlier ones: look at what the requests share. Normal for many loads.",
    ),
    row(
        "batch_utilization",
        Condition("batch_utilization_ratio", BELOW, 0.75),
        0.80,
        60.0,
        Severity.INFO,
        "Steps leave much of their token budget unused although requests wait. Normal while decodes fill the batch.",
        LOADED,
    ),
    row(
        "latency_slo",
        Condition("objective_excess", ABOVE, 1.0),
        0.5,
        60.0,
        Severity.WARNING,
        "More requests are over an objective's bound than its percentile allows.",
    ),
    row(
        "latency_imbalance",
        Condition("latency_imbalance", ABOVE, 3.0),
        2.5,
        60.0,
        Severity.WARNING,
        "Requests of one length differ threefold in latency.",
    ),
    row(
        "qps_swing",
        Condition("requests_per_s_swing_ratio", ABOVE, 0.30),
        0.25,
        60.0,
        Severity.INFO,
        "The request rate swings.",
    ),
    row(
        "padding_high",
        Condition("padding_ratio", ABOVE, 0.25),
        0.20,
        60.0,
        Severity.WARNING,
        "A quarter of the tokens computed is padding: capture more CUDA-graph sizes.",
    ),
    row(
        "padding_low",
        Condition("padding_ratio", BELOW, 0.15),
        0.20,
        FIVE_MINUTES_S,
        Severity.INFO,
        "Padding is under the range of the seeds and still over the 12 % that they count as waste.",
        (Condition("padding_ratio", ABOVE, 0.12),),
    ),
)

_ENGINE = about(
    Subject.ENGINE,
    row(
        "no_progress",
        Condition("stalled_s", ABOVE, 60.0),
        0.0,
        0.0,
        Severity.CRITICAL,
        "Requests run and no token comes: restart the engine.",
    ),
)

_GPU = about(
    Subject.GPU,
    row(
        "gpu_util",
        Condition("gpu_utilization_ratio", ABOVE, 0.90),
        0.85,
        FIVE_MINUTES_S,
        Severity.INFO,
        "A kernel runs nearly all the time. Normal under load: one decoding request is enough.",
    ),
)

RULES: tuple[Rule, ...] = (*_GPU, *_MEMORY, *_LOAD, *_ENGINE, *selfchecks.RULES)
"""emergency, kv_cache_full, no_progress and those on the daemon itself are not in the seeds' tables."""
