"""How much memory the whole KV cache takes on one worker, used or not.

Here: reading it out of vLLM's own plan of the cache. Never here: how full it is.
"""

from __future__ import annotations

from typing import Any

from vllm_governor_engine.cache.pools import block_bytes


def pool_bytes(scheduler: Any) -> int | None:
    """Bytes of device memory; None where this vLLM does not say."""
    try:
        config = scheduler.kv_cache_config
        blocks = int(scheduler.kv_cache_manager.block_pool.num_gpu_blocks)
        return _planned(config, blocks) or blocks * block_bytes(config) or None
    except Exception:
        return None


def _planned(config: Any, blocks: int) -> int:
    """What the workers were told to allocate; 0 when that is not in the plan."""
    tensors = [one for one in config.kv_cache_tensors if not getattr(one, "host_resident", False)]
    if any(hasattr(one, "layer_stride") for one in tensors):  # newer vLLM: each lies in the same allocation of `size`
        return max(int(one.size) for one in tensors)
    packed = max((int(getattr(one, "block_stride", 0)) for one in tensors), default=0)
    if packed:  # before that, where all layers' parts of a block lie side by side
        return blocks * packed
    return sum(int(one.size) for one in tensors)
