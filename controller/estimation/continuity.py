"""What ends comparability: a machine that slept, an engine that restarted. And how old each source is.

Belongs here: noticing a break. Never: what is forgotten because of it.
"""

from __future__ import annotations

from domain.readings.vllm import VllmReading
from domain.snapshot import Snapshot, Source

COUNTERS = (
    "preemptions",
    "requests_finished",
    "requests_failed",
    "requests_rejected",
    "prompt_tokens",
    "generation_tokens",
    "prefix_cache_queries",
    "prefix_cache_hits",
)
"""Counters of the engine's own. Bytes of responses are left out: an API process may restart alone."""


class Sleep:
    """Notices that the machine was suspended: Linux's monotonic clock stands still meanwhile, the wall clock does not.

    A wall clock set forward by as much looks the same; it costs one restart of the windows.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._ahead_s: float | None = None

    def over(self, snapshot: Snapshot) -> bool:
        """Whether the machine slept between the snapshot before and this one."""
        before_s, self._ahead_s = self._ahead_s, snapshot.wall.timestamp() - snapshot.now_s
        return before_s is not None and self._ahead_s - before_s > self._limit_s


class Boots:
    """Notices a restart of the engine: a new boot id, or a counter that went down."""

    def __init__(self) -> None:
        self._runtime: str | None = None
        self._cores: dict[int, str] = {}
        self._vllm: VllmReading | None = None

    @property
    def plugin_met(self) -> bool:
        """Whether the plugin has ever answered: then vLLM is one that it supports."""
        return self._runtime is not None

    def restarted(self, snapshot: Snapshot) -> bool:
        """Whether anything in this snapshot shows another boot than before."""
        runtime = snapshot.runtime.boot_id if snapshot.runtime else None
        cores = {core.index: core.boot_id for core in snapshot.engine.cores} if snapshot.engine else {}
        breaks = (
            runtime is not None and self._runtime not in (None, runtime),
            any(self._cores.get(index, boot_id) != boot_id for index, boot_id in cores.items()),
            snapshot.vllm is not None and self._vllm is not None and _went_down(self._vllm, snapshot.vllm),
        )
        self._runtime = runtime or self._runtime
        self._cores |= cores
        self._vllm = snapshot.vllm or self._vllm
        return any(breaks)


def _went_down(before: VllmReading, after: VllmReading) -> bool:
    pairs = ((getattr(before, name), getattr(after, name)) for name in COUNTERS)
    return any(old is not None and new is not None and new < old for old, new in pairs)


class Ages:
    """Seconds since each source last gave a reading."""

    def __init__(self) -> None:
        self._seen_s: dict[Source, float] = {}

    def after(self, snapshot: Snapshot) -> dict[Source, float]:
        """Take a snapshot in; a source that never gave a reading is absent."""
        self._seen_s |= {source: snapshot.now_s for source, reading in snapshot.readings.items() if reading is not None}
        return {source: snapshot.now_s - seen_s for source, seen_s in self._seen_s.items()}
