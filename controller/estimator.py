"""Snapshots to View: rates and windows.

Belongs here: differences over time. Never: reading a source, judging a value.
"""

from __future__ import annotations

from collections import deque
from dataclasses import fields

from domain.histogram import Histogram
from domain.slo import Latency, Slo
from domain.snapshot import Snapshot, VllmReading
from domain.view import View

WINDOWS_S = (3.0, 10.0, 30.0, 60.0)
"""A latency is read over the shortest of these that holds enough samples, so that a busy engine is judged by what it
does now and a quiet one by all there is."""
ENOUGH_SAMPLES = 500
STALE_TICKS = 3


class Estimator:
    """Keeps the last minute of snapshots. A window never reaches back before `restart_window`."""

    def __init__(self, tick_s: float) -> None:
        self._tick_s = tick_s
        self._history: deque[Snapshot] = deque()

    def restart_window(self) -> None:
        """Forget what was before: a knob moved or the engine restarted, so older samples speak of another engine."""
        self._history.clear()

    def update(self, snapshot: Snapshot, slos: tuple[Slo, ...]) -> View:
        """Take one snapshot in, answer the picture of now."""
        self._forget(snapshot)
        if snapshot.vllm is not None:
            self._history.append(snapshot)
        newest = self._history[-1] if self._history else None
        fresh = newest is not None and snapshot.now_s - newest.now_s <= STALE_TICKS * self._tick_s
        reading = newest.vllm if newest is not None and fresh else None
        rates = self._earliest(snapshot.now_s - WINDOWS_S[1]) if reading is not None else None
        latencies = self._latencies(snapshot.now_s, reading) if reading is not None else {}
        return View(
            now_s=snapshot.now_s,
            runtime=snapshot.runtime,
            kv_cache_usage_ratio=reading.kv_cache_usage_ratio if reading else None,
            requests_per_s=_rate("requests_finished", rates, newest),
            preemptions_per_s=_rate("preemptions", rates, newest),
            gpu_utilization_ratio=_utilization(snapshot),
            window_s=newest.now_s - rates.now_s if rates and newest else 0.0,
            latencies=latencies,
            slos=slos,
        )

    def _forget(self, snapshot: Snapshot) -> None:
        while self._history and snapshot.now_s - self._history[0].now_s > WINDOWS_S[-1] + self._tick_s:
            self._history.popleft()
        if self._history and snapshot.vllm is not None and _went_down(self._history[-1].vllm, snapshot.vllm):
            self._history.clear()  # the engine restarted

    def _earliest(self, since_s: float) -> Snapshot | None:
        return next((s for s in self._history if s.now_s >= since_s), None)

    def _latencies(self, now_s: float, reading: VllmReading) -> dict[Latency, Histogram]:
        found: dict[Latency, Histogram] = {}
        for latency, histogram in reading.latencies.items():
            for window_s in WINDOWS_S:
                start = self._earliest(now_s - window_s)
                before = start.vllm.latencies.get(latency) if start is not None and start.vllm is not None else None
                delta = histogram.since(before) if before is not None else None
                if delta is None:
                    continue
                found[latency] = delta
                if delta.samples >= ENOUGH_SAMPLES:
                    break
        return found


def _rate(field: str, start: Snapshot | None, end: Snapshot | None) -> float | None:
    if start is None or end is None or start.vllm is None or end.vllm is None or end.now_s <= start.now_s:
        return None
    before, after = getattr(start.vllm, field), getattr(end.vllm, field)
    if before is None or after is None or after < before:
        return None
    return float((after - before) / (end.now_s - start.now_s))


_COUNTERS = tuple(f.name for f in fields(VllmReading) if f.name not in {"running", "kv_cache_usage_ratio", "latencies"})


def _went_down(before: VllmReading | None, after: VllmReading) -> bool:
    """Any counter lower than before: vLLM restarted."""
    if before is None:
        return False
    pairs = ((getattr(before, name), getattr(after, name)) for name in _COUNTERS)
    return any(old is not None and new is not None and new < old for old, new in pairs)


def _utilization(snapshot: Snapshot) -> float | None:
    known = [gpu.utilization_ratio for gpu in snapshot.gpus or () if gpu.utilization_ratio is not None]
    return max(known) if known else None
