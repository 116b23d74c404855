"""vLLM's `/metrics`: gauges as they are now, counters and histograms since the engine's boot.

Belongs here: the reading as a value. Never: names of series (the sensor knows those) or differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.histogram import Histogram
from domain.slo import Latency


@dataclass(frozen=True, slots=True)
class EngineGauges:
    """One engine core, by vLLM's label `engine`."""

    engine: str
    running: float | None = None
    waiting: float | None = None
    kv_cache_usage_ratio: float | None = None
    generation_tokens: float | None = None
    """A counter: which of the engine cores makes no progress, the sum does not say."""


@dataclass(frozen=True, slots=True)
class VllmReading:
    """Sums over the engine cores where nothing else is said. None: the series is absent or its value unusable."""

    running: float | None = None
    waiting: float | None = None
    deferred: float | None = None
    """Waiting requests that wait for something other than room (vLLM's reason `deferred`); among `waiting`."""
    kv_cache_usage_ratio: float | None = None
    """Of the fullest engine core: an average would hide it."""
    asleep: bool | None = None
    """Any engine core sleeps (vLLM's sleep mode)."""
    preemptions: float | None = None
    requests_finished: float | None = None
    requests_failed: float | None = None
    """Those of `requests_finished` that ended with reason `error` or `abort`."""
    requests_rejected: float | None = None
    """Turned away at a queue limit (vLLM 0.32 and newer)."""
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    prefix_cache_queries: float | None = None
    """Tokens looked up in the prefix cache."""
    prefix_cache_hits: float | None = None
    response_bytes: float | None = None
    """Bodies sent by the API server where their length was known beforehand: streams are not in it."""
    latencies: Mapping[Latency, Histogram] = field(default_factory=dict)
    prompt_lengths: Histogram | None = None
    """Prompt tokens of finished requests."""
    output_lengths: Histogram | None = None
    """Generated tokens of finished requests."""
    engines: tuple[EngineGauges, ...] = ()
    series: Mapping[str, str] = field(default_factory=dict)
    """The series that each value came from: vLLM renamed some."""
