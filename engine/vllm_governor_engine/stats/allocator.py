"""What the workers' memory allocators say: reserved, allocated, and split off and idle.

Here: the method workers get, and asking it rarely. Never here: a ratio.

It goes through `collective_rpc`, which waits for the batches in flight and must never be given a timeout (a late reply
would be taken for the next one's). So it is asked on request only and at most every MIN_AGE_S; not at all on a CPU.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from .collector import Clock

METHOD = "governor_allocator"
"""The name of the worker's method."""
MIN_AGE_S = 10.0

KEYS = {
    "reserved_bytes": "reserved_bytes.all.current",
    "allocated_bytes": "allocated_bytes.all.current",
    "inactive_split_bytes": "inactive_split_bytes.all.current",
}
"""Our name by torch's. Memory outside torch's caching allocator (CUDA graphs' private pools are inside) is in none."""

AskWorkers = Callable[[str], Any]
"""EngineCore.collective_rpc."""


def worker_method(self: Any) -> dict[str, int] | None:
    """The worker's allocator, bytes; None where there is none or it cannot be asked. Never raises."""
    try:
        cuda = importlib.import_module("torch").cuda
        if not cuda.is_initialized():
            return None
        counted = cuda.memory_stats()
        return {ours: int(counted[theirs]) for ours, theirs in KEYS.items()}
    except Exception:
        return None


class Allocator:
    """The last answer and its age. `clock` gives monotonic seconds."""

    def __init__(self, vllm_config: Any, clock: Clock) -> None:
        device = getattr(getattr(vllm_config, "device_config", None), "device_type", None)
        self._there = device is not None and str(device) != "cpu"
        self._clock = clock
        self._asked: float | None = None
        self._workers: list[dict[str, int] | None] | None = None

    def read(self, ask_workers: AskWorkers | None) -> dict[str, Any] | None:
        """The newest answer; asks for one first if `ask_workers` is given and the last is old enough."""
        if not self._there:
            return None
        now = self._clock()
        if ask_workers is not None and (self._asked is None or now - self._asked >= MIN_AGE_S):
            self._asked = now
            self._workers = _ask(ask_workers)
        if self._asked is None or self._workers is None:
            return None
        return {"age_s": round(now - self._asked, 3), "workers": self._workers}


def _ask(ask_workers: AskWorkers) -> list[dict[str, int] | None] | None:
    """One entry per worker; None when they could not be asked: they may not know the method."""
    try:
        answers = list(ask_workers(METHOD))
    except Exception:
        return None
    workers = [_checked(answer) for answer in answers]
    return workers if any(worker is not None for worker in workers) else None


def _checked(answer: Any) -> dict[str, int] | None:
    try:
        return {name: int(answer[name]) for name in KEYS}
    except Exception:
        return None
