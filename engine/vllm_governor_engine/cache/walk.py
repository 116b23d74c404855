"""A walk over the free cached blocks from the coldest on, in pieces, while the list changes between them.

Here: where the walk is, and how a found block is emptied without losing the place. Never here: which ones, or when.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import tiers

Wanted = Callable[[Any], "bool | None"]
"""Says of a block that has something cached: take it, pass over it, or (None) stop before it."""


class ColdWalk:
    """Finds cached blocks in the pool's list of free ones. Works on vLLM's queue and on a tiered one alike.

    Between two pieces it remembers the block before the next one. Where that has left the list it begins again at the
    head; where that is somewhere else by now, blocks are passed over that a later walk from the head finds.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._before: Any = None
        self.at_end = False
        """Whether the last piece came to the end of the list."""

    def restart(self) -> None:
        """The next piece begins at the head."""
        self._before = None

    def piece(self, visits: int, most: int, wanted: Wanted) -> list[Any]:
        """The next blocks `wanted` takes, `most` at most; looks at `visits` blocks at most, some 0.1 us each."""
        queue = self._pool.free_block_queue
        tail, before = queue.fake_free_list_tail, self._before
        if before is None or before.next_free_block is None or before.prev_free_block is None:
            before = queue.fake_free_list_head
        found: list[Any] = []
        while visits and len(found) < most:
            block = before.next_free_block
            if block is tail:
                break
            if block.block_hash is not None:
                answer = wanted(block)
                if answer is None:
                    break
                if answer:
                    found.append(block)
            before = block
            visits -= 1
        self._before = before
        self.at_end = before.next_free_block is tail
        return found

    def empty(self, blocks: list[Any]) -> None:
        """Evicts what is cached in blocks just found, and makes them the next to be given away.

        In vLLM's own queue they are at the head as it is: a walk meets them in that order.
        """
        pool = self._pool
        pool.evict_blocks({block.block_id for block in blocks})
        if not blocks or tiers.tiers_of(pool) is None:
            return
        queue = pool.free_block_queue
        after = self._before.next_free_block
        for block in blocks:
            queue.remove(block)
        queue.prepend_n(blocks)
        self._before = after.prev_free_block
