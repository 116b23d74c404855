"""The knob `watermark_blocks`: KV cache blocks that have to stay free when a request is admitted.

Here: the headroom against preemption. Never here: who is preempted.

Source: `kv_cache_manager.watermark_blocks` (vLLM 0.24 on), read by allocate_slots() for waiting and preempted requests
while something runs; running requests are never refused for it. With a large one the batch drains to one request at
worst, since vLLM does not apply it when nothing runs. The envelope is therefore half of the pool, whatever the server
was started with: more headroom takes nothing from the engine but admissions.
"""

from __future__ import annotations

from typing import Any

from vllm_governor_engine import probe

from .base import NATIVE, Bounds, Engine, Support, Value, Values, check_int, read_int, reads_int

NAME = "watermark_blocks"


class Watermark:
    """The KV watermark; see the module."""

    name = NAME
    part = NAME

    def __init__(self, engine: Engine) -> None:
        self._manager: Any = getattr(engine.scheduler, "kv_cache_manager", None)
        self.support = _support(self._manager)
        self.startup: Value = 0 if self.support.off else read_int(self._manager, NAME)

    def read(self) -> Value:
        """The watermark in force, blocks."""
        return read_int(self._manager, NAME)

    def check_type(self, value: object) -> Value:
        """An integer."""
        return check_int(self.name, value)

    def bounds(self, plan: Values, running: int) -> Bounds:
        """0 .. half of the pool, or the start-up value if that is more."""
        return Bounds(0, max(read_int(self._manager.block_pool, "num_gpu_blocks") // 2, self.startup))

    def apply(self, value: Value) -> None:
        """Set the watermark; the next admission obeys."""
        setattr(self._manager, NAME, value)

    def release(self) -> None:
        """Back to the start-up value."""
        self.apply(self.startup)


def _support(manager: Any) -> Support:
    kind = type(manager)
    if not probe.reads(kind, "allocate_slots", NAME) or not reads_int(manager, NAME):
        return Support("off", f"{kind.__name__}.allocate_slots() reads no watermark this plugin knows")
    if not reads_int(getattr(manager, "block_pool", None), "num_gpu_blocks"):
        return Support("off", f"{kind.__name__} does not say how many blocks it has")
    return NATIVE
