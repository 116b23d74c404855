"""vLLM's `/metrics`, over HTTP.

Belongs here: fetching, parsing, and vLLM's metric names. Never: differences between two scrapes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from domain.errors import BadReading, EngineUnreachable
from domain.histogram import Histogram
from domain.slo import Latency
from domain.snapshot import VllmReading

MAX_BYTES = 4 * 1024 * 1024

# vLLM's names, newest first where a metric was renamed (0.11 to 0.33).
GAUGES = {
    "running": ("vllm:num_requests_running",),
    "kv_cache_usage_ratio": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
}
COUNTERS = {
    "preemptions": ("vllm:num_preemptions_total",),
    "requests_finished": ("vllm:request_success_total",),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "generation_tokens": ("vllm:generation_tokens_total",),
}
HISTOGRAMS = {
    Latency.TTFT: ("vllm:time_to_first_token_seconds",),
    Latency.ITL: ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    Latency.E2E: ("vllm:e2e_request_latency_seconds",),
    Latency.QUEUE: ("vllm:request_queue_time_seconds",),
    Latency.INFERENCE: ("vllm:request_inference_time_seconds",),
}
WORST_OF_ENGINES = frozenset({"kv_cache_usage_ratio"})
_WANTED = tuple(name for names in (*GAUGES.values(), *COUNTERS.values(), *HISTOGRAMS.values()) for name in names)


async def scrape(session: aiohttp.ClientSession, url: str, timeout_s: float) -> VllmReading:
    """Fetch and parse `url`/metrics. Raises EngineUnreachable, or BadReading when vLLM's own series are absent."""
    try:
        async with session.get(f"{url}/metrics", timeout=aiohttp.ClientTimeout(total=timeout_s)) as response:
            body = await response.content.read(MAX_BYTES + 1)
            while not response.content.at_eof() and len(body) <= MAX_BYTES:
                body += await response.content.read(MAX_BYTES + 1 - len(body))
            status = response.status
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise EngineUnreachable(f"cannot scrape {url}/metrics: {str(error) or type(error).__name__}") from error
    if status != 200:
        raise BadReading(f"cannot use {url}/metrics: it answered HTTP {status}")
    if len(body) > MAX_BYTES:
        raise BadReading(f"cannot use {url}/metrics: the answer is longer than {MAX_BYTES} bytes")
    return parse(body.decode("utf-8", errors="replace"), url)


def parse(text: str, url: str = "vLLM") -> VllmReading:
    """Read vLLM's series out of the text format. Only wanted lines reach the parser: it is the costly part."""
    lines = "\n".join(line for line in text.splitlines() if line.startswith(_WANTED)) + "\n"
    samples: dict[str, list[Sample]] = defaultdict(list)
    try:
        for family in text_string_to_metric_families(lines):
            for sample in family.samples:
                samples[sample.name].append(sample)
    except ValueError as error:
        raise BadReading(f"cannot understand {url}/metrics: {error}") from error
    if not samples:
        raise BadReading(
            f"{url}/metrics carries no vLLM series: is it vLLM, and was it started without --disable-log-stats?"
        )
    try:
        return _reading(samples)
    except (KeyError, ValueError) as error:
        raise BadReading(f"cannot understand {url}/metrics: a bucket has no usable bound ({error})") from error


def _reading(samples: dict[str, list[Sample]]) -> VllmReading:
    values = {field: _number(field, _first(samples, names)) for field, names in (GAUGES | COUNTERS).items()}
    latencies = {
        latency: histogram
        for latency, names in HISTOGRAMS.items()
        if (histogram := _histogram(samples, names)) is not None
    }
    return VllmReading(**values, latencies=latencies)


def _first(samples: dict[str, list[Sample]], names: Iterable[str]) -> list[Sample]:
    """The newest name that is present: two names for one thing are never summed."""
    return next((samples[name] for name in names if name in samples), [])


def _number(field: str, found: list[Sample]) -> float | None:
    values = [sample.value for sample in found]
    if not values or any(not math.isfinite(value) or value < 0 for value in values):
        return None
    return max(values) if field in WORST_OF_ENGINES else sum(values)


def _histogram(samples: dict[str, list[Sample]], names: Iterable[str]) -> Histogram | None:
    for name in names:
        buckets: dict[float, float] = defaultdict(float)
        for sample in samples.get(f"{name}_bucket", ()):
            buckets[float(sample.labels["le"])] += sample.value
        if buckets:
            bounds = tuple(sorted(buckets))
            total = sum(sample.value for sample in samples.get(f"{name}_sum", ()))
            return Histogram(bounds, tuple(buckets[bound] for bound in bounds), total)
    return None
