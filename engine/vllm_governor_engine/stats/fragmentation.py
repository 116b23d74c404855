"""Internal fragmentation of the KV cache: slots that are allocated and empty.

Here: the measure as it is at this moment, per cache manager. Never here: the allocator's fragmentation.

Only a request's last block is partly empty, and a shared block is a full one, so the empty slots are summed over
requests and the allocated ones over blocks, each block once. (Summing the requests' tokens instead counts a shared
prefix as often as it is shared, and the difference goes negative.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_REFERENCES = 50_000
"""Block references counted one by one at most, about 1.5 ms of the engine's thread."""

BY_POSITION = frozenset(
    {
        "FullAttentionManager", "SinkFullAttentionManager", "SlidingWindowManager", "ChunkedLocalAttentionManager",
        "RSWAManager", "HiSparseSourceManager",
    }
)  # fmt: skip
"""vLLM's managers whose n-th block of a request holds its n-th stretch of tokens. Others (Mamba states, encoder
caches, ring buffers) have no slots that fill up, and one we do not know may have none either: None for those."""


def measure(scheduler: Any) -> dict[str, Any]:
    """The whole and each manager. `ratio` is None where nothing is allocated or it cannot be told."""
    singles = list(scheduler.kv_cache_manager.coordinator.single_type_managers)
    managers = [_manager(scheduler, group, single, singles) for group, single in enumerate(singles)]
    known = [one for one in managers if one["wasted_slots"] is not None]
    wasted = sum(one["wasted_slots"] for one in known)
    slots = sum(one["allocated_slots"] for one in known)
    return {
        "wasted_slots": wasted if known else None,
        "allocated_slots": slots if known else None,
        "ratio": _ratio(wasted, slots),
        "managers": managers,
    }


def _manager(scheduler: Any, group: int, single: Any, singles: list[Any]) -> dict[str, Any]:
    kind, size = type(single).__name__, int(single.block_size)
    shown: dict[str, Any] = {"group": group, "kind": kind, "block_size": size}
    allocated = _allocated(single, singles) if kind in BY_POSITION else None
    if allocated is None:
        return {**shown, "wasted_slots": None, "allocated_slots": None, "ratio": None}
    # More than is allocated cannot be empty, though a request that is just being taken apart may look like it.
    wasted = min(_wasted(scheduler.requests, single.req_to_blocks, size), allocated * size)
    return {
        **shown,
        "wasted_slots": wasted,
        "allocated_slots": allocated * size,
        "ratio": _ratio(wasted, allocated * size),
    }


def _wasted(requests: Mapping[str, Any], blocks_of: Mapping[str, Any], size: int) -> int:
    wasted = 0
    for request_id, blocks in blocks_of.items():
        request = requests.get(request_id)
        if request is not None:
            empty = len(blocks) * size - int(request.num_computed_tokens)
            if empty > 0:
                wasted += empty
    return wasted


def _allocated(single: Any, singles: list[Any]) -> int | None:
    """Blocks a manager has allocated, each once; None when there are too many to count."""
    pool = single.block_pool
    if sum(other.block_pool is pool for other in singles) == 1:
        return int(pool.num_gpu_blocks) - 1 - int(pool.get_num_free_blocks())  # vLLM keeps one block back
    # Several managers share the pool, so the pool cannot say how many are whose.
    tables = list(single.req_to_blocks.values())
    if sum(map(len, tables)) > MOST_REFERENCES:
        return None
    return len({block.block_id for blocks in tables for block in blocks if not block.is_null})


def _ratio(wasted: int, slots: int) -> float | None:
    return round(wasted / slots, 6) if slots else None
