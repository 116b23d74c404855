"""Puts the plugin's two-tier cache on an in-process engine, without the rest of the plugin.

Belongs here: that. Never: a measurement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.emulated_gpu.inprocess import InProcessEngine

if TYPE_CHECKING:
    from vllm_governor_engine.cache.hot import HotCache


def with_tiers(engine: InProcessEngine, **settings: float) -> HotCache:
    """Two tiers with these `HotSettings`, on the engine's clock, looked after before and after each step."""
    from vllm_governor_engine.cache.hot import HotCache, HotSettings
    from vllm_governor_engine.cache.pools import block_bytes

    scheduler, clock = engine.scheduler, engine.clock
    cache = HotCache(scheduler, block_bytes(scheduler.kv_cache_manager.kv_cache_config))
    cache.apply(HotSettings(**settings), clock.now_s())
    inner = scheduler.schedule

    def schedule(*args: Any, **kwargs: Any) -> Any:
        cache.before_step(clock.now_s())
        output = inner(*args, **kwargs)
        cache.after_step(output)
        return output

    scheduler.schedule = schedule
    return cache
