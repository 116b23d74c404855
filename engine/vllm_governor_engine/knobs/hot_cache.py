"""The knobs of the two-tier prefix cache: `hot_cache_ratio`, `hot_cache_min_size_mb`, `hot_ttl_s`, `cold_ttl_s`,
`cold_cache_reclaim_threshold`.

Here: names, bounds, start-up values (vLLM's behaviour: off). Never here: the cache (cache/) or its place in the hook
(hot_tier.py). The names and defaults of the lifetimes are the seeds'; no vLLM has any of these settings.
"""

from __future__ import annotations

from vllm_governor_engine.cache.hot import HIGHEST_RATIO
from vllm_governor_engine.hot_tier import DEFAULTS, PART, HotTier

from .base import Bounds, Engine, Value, Values, check_number

HIGHEST_MB = float(2**20)
"""A terabyte: more than any pool. What the pool's share does not hold counts as all of that share."""
TTL_S = (1.0, 86400.0)


class _HotKnob:
    """One setting of the cache. A subclass says which, and within which bounds."""

    name = ""
    setting = ""
    low = 0.0
    high = 0.0
    part = PART

    def __init__(self, engine: Engine) -> None:
        self._tier = engine.share(HotTier)
        self.support = self._tier.cache.support
        self.startup: Value = float(getattr(DEFAULTS, self.setting))

    def read(self) -> Value:
        """The setting in force."""
        return float(getattr(self._tier.settings, self.setting))

    def check_type(self, value: object) -> Value:
        """A number."""
        return check_number(self.name, value)

    def bounds(self, plan: Values, running: int) -> Bounds:
        """The same at all times."""
        return Bounds(self.low, self.high)

    def apply(self, value: Value) -> None:
        """Put it in force; the cache is tiered from the moment that its settings ask for it."""
        self._tier.set(**{self.setting: float(value)})

    def release(self) -> None:
        """The whole cache is vLLM's again: a part that failed once is not trusted with the other settings."""
        self._tier.stop()


class HotCacheRatio(_HotKnob):
    """Largest share of the pool that hot blocks may keep beyond LRU's order; 0 is off."""

    name = PART
    setting = "ratio"
    high = HIGHEST_RATIO


class HotCacheMinSize(_HotKnob):
    """What the cache may not shrink that share below by itself, MB (2^20 bytes) per worker."""

    name = "hot_cache_min_size_mb"
    setting = "min_size_mb"
    high = HIGHEST_MB


class HotTtl(_HotKnob):
    """Seconds without a use after which a hot block is hot no more."""

    name = "hot_ttl_s"
    setting = "hot_ttl_s"
    low, high = TTL_S


class ColdTtl(_HotKnob):
    """Seconds without a use after which a cold block may be dropped ahead of need."""

    name = "cold_ttl_s"
    setting = "cold_ttl_s"
    low, high = TTL_S


class ReclaimThreshold(_HotKnob):
    """Share of the pool, in use or cached, above which expired cold blocks are dropped; 1 is off."""

    name = "cold_cache_reclaim_threshold"
    setting = "reclaim_threshold"
    high = 1.0
