"""What vLLM's own counters and gauges say: load now and rates over the window.

Belongs here: requests, tokens, queue, progress. Never: latencies, the cache, the plugin's sums.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.estimation.windows import Signals, Window, largest, ratio
from domain.readings.vllm import VllmReading


def gauges(reading: VllmReading | None, held: float | None) -> Signals:
    """What the engine holds now; nothing without a fresh reading."""
    if reading is None:
        return {}
    return {
        "running": reading.running,
        "waiting": reading.waiting,
        "deferred": reading.deferred,
        "kv_cache_usage_ratio": reading.kv_cache_usage_ratio,
        "demand": _demand(reading, held),
    }


def _demand(reading: VllmReading, held: float | None) -> float | None:
    """What is unknown is not taken off: older vLLM do not tell deferred requests apart, nor is the plugin always there.

    The two sources are not read at the same instant, hence the floor.
    """
    if reading.waiting is None:
        return None
    return max(0.0, reading.waiting - (held or 0.0) - (reading.deferred or 0.0))


def rates(window: Window[VllmReading] | None) -> Signals:
    """Gains of counters over the window."""
    if window is None:
        return {}
    finished, rejected = window.delta("requests_finished"), window.delta("requests_rejected")
    ended = finished + rejected if finished is not None and rejected is not None else None
    return {
        "requests_per_s": window.rate("requests_finished"),
        "prompt_tokens_per_s": window.rate("prompt_tokens"),
        "generation_tokens_per_s": window.rate("generation_tokens"),
        "preemptions_per_s": window.rate("preemptions"),
        "response_bytes_per_s": window.rate("response_bytes"),
        "failed_ratio": ratio(window.delta("requests_failed"), finished),
        "rejected_ratio": ratio(rejected, ended),
    }


@dataclass(frozen=True, slots=True)
class _Core:
    tokens: float
    moved_s: float
    stalled_s: float | None


class Progress:
    """How long requests have been running without a token, in the engine core where it is longest: the others' tokens
    would hide it. A knob that moves does not start it afresh.
    """

    def __init__(self) -> None:
        self._cores: dict[str, _Core] = {}
        self.stalled_s: float | None = None

    def take(self, now_s: float, reading: VllmReading, goes_on: bool) -> None:
        """A new reading; `goes_on` False: it cannot be compared with the one before."""
        before = self._cores if goes_on else {}
        self._cores = {
            name: _follow(before.get(name), now_s, running, tokens) for name, running, tokens in _each_core(reading)
        }
        self.stalled_s = largest(*(core.stalled_s for core in self._cores.values()))


def _each_core(reading: VllmReading) -> list[tuple[str, float, float]]:
    """Running requests and tokens by engine core; of all together where they are not told apart, nothing if unknown."""
    if reading.running is None or reading.generation_tokens is None:
        return []
    of_each = [
        (core.engine, core.running, core.generation_tokens)
        for core in reading.engines
        if core.running is not None and core.generation_tokens is not None
    ]
    whole = len(of_each) == len(reading.engines)
    return of_each if of_each and whole else [("", reading.running, reading.generation_tokens)]


def _follow(before: _Core | None, now_s: float, running: float, tokens: float) -> _Core:
    if before is not None and running > 0 and before.tokens == tokens:
        return _Core(tokens, before.moved_s, now_s - before.moved_s)
    known = running <= 0 or (before is not None and before.tokens < tokens)
    return _Core(tokens, now_s, 0.0 if known else None)
