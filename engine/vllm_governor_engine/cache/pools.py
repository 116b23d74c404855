"""What pools of KV cache blocks there are, how large a block is, and whether a pool's queue may be tiered.

Here: questions about live vLLM objects. Never here: a change to one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import tiers

if TYPE_CHECKING:
    from vllm_governor_engine.knobs.base import Support

_BLOCK_ATTRIBUTES = ("block_hash", "block_id", "next_free_block", "prev_free_block", "ref_cnt")


def pools_of(scheduler: Any) -> list[Any]:
    """Every block pool, the main one first. Ordinary hybrid models share one; some models have a host pool beside."""
    manager = scheduler.kv_cache_manager
    singles = getattr(manager.coordinator, "single_type_managers", ())
    return list(dict.fromkeys([manager.block_pool, *(single.block_pool for single in singles)]))


def block_bytes(kv_cache_config: Any) -> int:
    """Bytes one block takes on one worker.

    A block belongs to one cache group at a time, so it is as large as the largest group's layers together.
    """
    return max((_group_bytes(group) for group in kv_cache_config.kv_cache_groups), default=0)


def _group_bytes(group: Any) -> int:
    spec = group.kv_cache_spec
    layers = 1 if hasattr(spec, "kv_cache_specs") else len(group.layer_names)  # such a spec sums its layers itself
    return int(spec.page_size_bytes) * layers


def tier_support(scheduler: Any) -> Support:
    """Whether the main pool's queue may be tiered: native, limited (how) or off (why)."""
    from vllm_governor_engine.knobs.base import Support  # here, since the knobs import the cache

    try:
        pool = scheduler.kv_cache_manager.block_pool
        if not pool.enable_caching:
            return Support("off", "prefix caching is off, so no block is ever hit again")
        if tiers.tiers_of(pool) is None and (why := _why_not(pool)):
            return Support("off", why)
        limits = _limits(scheduler)
        return Support("limited", "; ".join(limits)) if limits else Support("native")
    except Exception as error:  # an unknown vLLM: the knob is off, serving goes on
        return Support("off", f"this vLLM's block pool is not one this plugin knows ({type(error).__name__})")


def _why_not(pool: Any) -> str | None:
    queue, block = pool.free_block_queue, pool.blocks[-1]
    if missing := [name for name in _BLOCK_ATTRIBUTES if not hasattr(block, name)]:
        return f"blocks of the pool have no {', '.join(missing)}"
    if block.block_id != len(pool.blocks) - 1:
        return "blocks of the pool are not numbered from 0"
    stock = tiers.tiered_class().__mro__[1]
    if type(queue) is not stock:
        return f"the free-block queue is a {type(queue).__name__}, not vLLM's own"
    methods = {name for name in dir(queue) if not name.startswith("_") and callable(getattr(queue, name))}
    if unknown := sorted(methods - tiers.KNOWN_METHODS):
        return f"the free-block queue has methods this plugin does not know: {', '.join(unknown)}"
    return None


def _limits(scheduler: Any) -> list[str]:
    limits = []
    if len(pools_of(scheduler)) > 1:
        limits.append("blocks of other pools than the main one keep vLLM's order")
    if scored_group(scheduler) is None:
        limits.append("no cache group's lookups can be followed, so the hot share is used as set, whatever it wins")
    return limits


def scored_group(scheduler: Any) -> int | None:
    """The cache group whose lookups tell what the tier wins and loses; None when there is none.

    It is one that hits whole beginnings (full attention), in the main pool, with blocks as large as the hashes.
    """
    full = importlib.import_module("vllm.v1.core.single_type_kv_cache_manager").FullAttentionManager
    manager = scheduler.kv_cache_manager
    pool = manager.block_pool
    for index, single in enumerate(manager.coordinator.single_type_managers):
        same_lookup = type(single).find_longest_cache_hit.__func__ is full.find_longest_cache_hit.__func__
        if same_lookup and single.block_pool is pool and single.block_size == pool.hash_block_size:
            return index
    return None
