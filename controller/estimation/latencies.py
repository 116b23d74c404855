"""What completed inside the window: latencies and lengths.

Belongs here: choosing each histogram's window. Never: quantiles (domain.histogram), objectives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from controller.estimation.windows import ENOUGH_SAMPLES, WINDOWS_S, Signals, Track, Window, ratio
from domain.histogram import Histogram
from domain.readings.vllm import VllmReading
from domain.slo import Latency


def latencies(track: Track[VllmReading], now_s: float) -> dict[Latency, Histogram]:
    """Each latency over the shortest window that holds enough samples, else over the longest there is."""
    reading = track.current(now_s)
    found: dict[Latency, Histogram] = {}
    for latency in reading.latencies if reading is not None else ():
        histogram = _difference(track, now_s, partial(_latency, latency))
        if histogram is not None:
            found[latency] = histogram
    return found


def completed(window: Window[VllmReading] | None) -> dict[Latency, Histogram]:
    """What completed between the two readings of a window."""
    if window is None:
        return {}
    start = window.start.latencies
    gains = {kind: after.since(start[kind]) for kind, after in window.end.latencies.items() if kind in start}
    return {kind: gained for kind, gained in gains.items() if gained is not None}


def _latency(latency: Latency, reading: VllmReading) -> Histogram | None:
    return reading.latencies.get(latency)


def lengths(track: Track[VllmReading], now_s: float) -> Signals:
    """Mean lengths of finished requests, over windows chosen in the same way."""
    prompts = _difference(track, now_s, lambda r: r.prompt_lengths)
    outputs = _difference(track, now_s, lambda r: r.output_lengths)
    return {
        "mean_prompt_tokens": prompts.mean if prompts else None,
        "mean_output_tokens": outputs.mean if outputs else None,
    }


def queue_share(found: Mapping[Latency, Histogram]) -> float | None:
    """Mean queue time over mean end-to-end latency."""
    queue, e2e = found.get(Latency.QUEUE), found.get(Latency.E2E)
    return ratio(queue.mean, e2e.mean) if queue is not None and e2e is not None else None


def _difference(
    track: Track[VllmReading], now_s: float, pick: Callable[[VllmReading], Histogram | None]
) -> Histogram | None:
    """The counts say which window is long enough; only that one's buckets are worked out."""
    chosen: tuple[Histogram, Histogram] | None = None
    for span_s in WINDOWS_S:
        window = track.window(now_s, span_s)
        before, after = (pick(window.start), pick(window.end)) if window is not None else (None, None)
        if before is None or after is None or before.bounds != after.bounds:
            continue
        chosen = (before, after)
        if after.samples - before.samples >= ENOUGH_SAMPLES:
            break
    return chosen[1].since(chosen[0]) if chosen is not None else None
