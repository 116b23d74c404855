"""The prefix cache: hits, the hot share, what is lost.

Belongs here: shares and rates of cache traffic. Never: what follows from them.
"""

from __future__ import annotations

from controller.estimation.cores import gain, per_second, total
from controller.estimation.windows import Signals, Window, ratio
from domain.readings.engine import EngineStats
from domain.readings.vllm import VllmReading


def traffic(window: Window[EngineStats] | None, stats: EngineStats | None) -> Signals:
    """What the plugin counts. Blocks in the tiers are of this moment, the rest over the window."""
    hot, cold = gain(window, "hot_requests"), gain(window, "cold_requests")
    hot_blocks, cold_blocks = total(stats, "hot_blocks"), total(stats, "cold_blocks")
    return {
        "hot_requests_ratio": ratio(hot, hot + cold) if hot is not None and cold is not None else None,
        "hot_blocks_ratio": (
            ratio(hot_blocks, hot_blocks + cold_blocks) if hot_blocks is not None and cold_blocks is not None else None
        ),
        "evictions_per_s": per_second(window, "evictions"),
        "reallocations_per_s": per_second(window, "reallocations"),
    }


def hit_ratio(
    plugin: Window[EngineStats] | None,
    vllm: Window[VllmReading] | None,
    mean_prompt_tokens: float | None,
    counts_apart: bool,
) -> float | None:
    """Hit tokens over looked-up tokens, as far as they are a request's first look. No lookups: unknown; no hits: 0.

    A preempted request looks up its own tokens when it comes back and finds what it computed itself: that says nothing
    of the cache. The plugin counts first admissions only, so its figures come first. vLLM's counters leave such lookups
    out in every version that the plugin supports (`counts_apart`); earlier ones did not, and there each preemption is
    taken to have looked up and found one mean prompt. The rest is the share that is certain.
    """
    looked_up = gain(plugin, "cache_prompt_tokens")
    hits = gain(plugin, "cache_hit_tokens")
    if looked_up is None or hits is None:
        if vllm is None:
            return None
        looked_up, hits = vllm.delta("prefix_cache_queries"), vllm.delta("prefix_cache_hits")
        preemptions = 0.0 if counts_apart else vllm.delta("preemptions")
        if looked_up is None or hits is None or preemptions is None:
            return None
        if preemptions > 0:
            if mean_prompt_tokens is None:
                return None
            again = min(hits, preemptions * mean_prompt_tokens)
            looked_up, hits = looked_up - again, hits - again
    return ratio(min(hits, looked_up), looked_up)
