"""The two-tier prefix cache of one engine core as the governor runs it: one set of settings, one part of the hook.

Here: when the cache's two halves hang in the schedule() hook, and its report. Never here: what the cache does
(cache/), or a knob.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .cache.hot import HotCache, HotSettings
from .cache.pools import block_bytes, pools_of
from .knobs.base import Engine

PART = "hot_cache_ratio"
"""The name of the cache's part of the schedule() hook."""

DEFAULTS = HotSettings(hot_ttl_s=900.0, cold_ttl_s=120.0)
"""Off: ratio 0 and threshold 1. The lifetimes are those that the cache starts with once it is switched on."""


class HotTier:
    """The cache of one scheduler. Built off: until a setting switches it on nothing of vLLM is touched."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.block_bytes = _block_bytes(engine.scheduler)
        self.cache = HotCache(engine.scheduler, self.block_bytes)
        self.settings = DEFAULTS

    def set(self, **changed: float) -> None:
        """Put changed settings in force, between two steps."""
        settings = replace(self.settings, **changed)
        self.cache.apply(settings, self._engine.clock())
        self.settings = settings
        if self.cache.on:
            self._engine.hook.add(PART, self._before, self.cache.after_step)
        else:
            self._engine.hook.remove(PART)

    def stop(self) -> None:
        """vLLM's own order of the free blocks again; what is cached stays cached."""
        self.settings = DEFAULTS
        self._engine.hook.remove(PART)
        self.cache.off()

    def _before(self) -> None:
        self.cache.before_step(self._engine.clock())


def _block_bytes(scheduler: Any) -> int:
    """Bytes of a block on one worker; 0 where this vLLM does not say, or has no pool."""
    try:
        return block_bytes(scheduler.kv_cache_config) if pools_of(scheduler) else 0
    except Exception:
        return 0
