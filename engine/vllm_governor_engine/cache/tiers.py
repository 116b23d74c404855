"""vLLM's queue of free blocks, turned in place into one that evicts hot blocks last, and back.

Here: the order of free blocks. Never here: what makes a block hot, how many may be kept, when any of it is used.

It stays vLLM's own object and its own doubly linked list; only its class changes, so every reference to it,
`isinstance` and a walk along the list stay valid. The list has two parts and a pointer to where the second begins::

    head | everything freed, in LRU order | kept: hot blocks whose turn to be evicted has come and gone | tail

A freed block joins the end of the first part, as it would join the list's end in vLLM's queue. Whoever needs a block
gets the head's; a hot block found there moves to the end of the second part instead, while that has room. So blocks
leave the first part in exactly LRU's order, which is what makes the score in `share` exact; and a hot block costs one
move per use, not one per free. What is kept is taken, oldest first, when it is more than the share allows or when
nothing else is left.

A block is told by its id: vLLM's blocks have no room for an attribute of ours.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any

from .share import Share

COLD = 0
HOT = 1
"""Hit again by another request; in use, or among the first part of the list."""
KEPT = 2
"""Hot, and in the second part of the list."""
WON = 3
"""Taken out of the second part by somebody at a time when LRU would have lost it; a win if that was a request."""

MOVES_PER_CALL = 512
"""Hot blocks moved at most in one call (about 0.3 us each): past that they are evicted, so that no call stalls."""

KNOWN_METHODS = frozenset(
    {
        "append", "append_n", "get_all_free_blocks", "iter_blocks_after", "popleft", "popleft_n", "prepend_n", "remove",
    }
)  # fmt: skip
"""The queue's public methods in vLLM 0.18 .. 0.33. One more could move blocks behind the pointer's back."""


class Tiers:
    """What a tiered queue knows beside its list. One per queue, in its attribute `tiers`."""

    __slots__ = ("first_kept", "freed_at_s", "hot_ttl_s", "left_at", "mark", "moves_left", "now_s", "share", "watched")

    def __init__(self, blocks: int, first_kept: Any, watched: Mapping[int, Any], now_s: float) -> None:
        self.mark = bytearray(blocks)
        """COLD, HOT, KEPT or WON, by block id."""
        self.freed_at_s = [now_s] * blocks
        """When each block was last freed with something cached in it, by block id."""
        self.left_at = [0] * blocks
        """The turn at which each kept block was kept, by block id."""
        self.first_kept = first_kept
        """The first block of the second part; the list's tail when that is empty."""
        self.watched = watched
        """Blocks somebody still reads though they are free (vLLM's `_reuse_watchers`), by id."""
        self.share = Share()
        self.moves_left = 0
        """Hot blocks the current call may still move."""
        self.hot_ttl_s = float("inf")
        """A block not used for so long is not hot any more, seconds."""
        self.now_s = now_s
        """The moment the current step began; set by whoever drives, seconds on a monotonic clock."""


@functools.cache
def _queue_class() -> Any:
    return importlib.import_module("vllm.v1.core.kv_cache_utils").FreeKVCacheBlockQueue


@functools.cache
def tiered_class() -> Any:
    """The subclass; made at the first call, since vLLM is not imported before."""

    class TieredQueue(_queue_class()):  # type: ignore[misc]  # vLLM is untyped here
        """See the module."""

        tiers: Tiers

        def popleft(self) -> Any:
            if not self.num_free_blocks:
                return super().popleft()  # raises what vLLM's raises
            return self.popleft_n(1)[0]

        def popleft_n(self, n: int) -> list[Any]:
            if n > self.num_free_blocks:
                raise AssertionError(f"{n} blocks asked for, {self.num_free_blocks} are free")  # as vLLM's own does
            tiers, head = self.tiers, self.fake_free_list_head
            share, mark = tiers.share, tiers.mark
            tiers.moves_left = MOVES_PER_CALL
            taken: list[Any] = []
            while len(taken) < n:
                # The common case first, unlinked in one go: cold blocks at the head, no more kept than allowed.
                block, kept, turn = head.next_free_block, share.kept, share.turn
                if kept <= share.target:
                    first_kept, memory, missing = tiers.first_kept, share.memory, n - len(taken)
                    while missing and block is not first_kept and not mark[block.block_id]:
                        key = block.block_hash
                        if key is not None:  # an empty block goes first and was never LRU's to lose
                            turn += 1
                            if kept:  # else LRU holds nothing that we do not
                                memory[key] = turn
                        after = block.next_free_block
                        block.prev_free_block = block.next_free_block = None
                        taken.append(block)
                        block = after
                        missing -= 1
                    head.next_free_block = block
                    block.prev_free_block = head
                    share.turn = turn
                if len(taken) < n:
                    taken.append(_take_one(self))
            self.num_free_blocks -= n
            if len(share.memory) > share.remembers:
                share.forget_old(added=n)
            return taken

        def remove(self, block: Any) -> None:
            after = block.next_free_block
            super().remove(block)
            tiers = self.tiers
            if tiers.mark[block.block_id] == KEPT:
                share = tiers.share
                would_be_lost = share.turn - tiers.left_at[block.block_id] > share.kept
                tiers.mark[block.block_id] = WON if would_be_lost else HOT
                share.kept -= 1
                if block is tiers.first_kept:
                    tiers.first_kept = after

        def append(self, block: Any) -> None:
            self.append_n([block])

        def append_n(self, blocks: list[Any]) -> None:
            tiers = self.tiers
            after = tiers.first_kept
            last, freed_at_s, now_s = after.prev_free_block, tiers.freed_at_s, tiers.now_s
            for block in blocks:
                block.prev_free_block = last
                last.next_free_block = block
                last = block
                freed_at_s[block.block_id] = now_s
            last.next_free_block = after
            after.prev_free_block = last
            self.num_free_blocks += len(blocks)
            if tiers.watched:
                for block in blocks:
                    if block.block_id in tiers.watched:
                        tiers.mark[block.block_id] = HOT

    return TieredQueue


def switch_on(pool: Any, now_s: float) -> Tiers:
    """Turns the pool's queue into a tiered one, with nothing hot in it yet."""
    queue = pool.free_block_queue
    watched = getattr(pool, "_reuse_watchers", {})  # absent before vLLM 0.30
    tiers = Tiers(len(pool.blocks), queue.fake_free_list_tail, watched, now_s)
    queue.tiers = tiers
    queue.__class__ = tiered_class()
    return tiers


def switch_off(pool: Any) -> None:
    """Gives the queue its own class back; the list is a valid one of vLLM's, hot blocks last. Safe to call twice."""
    queue = pool.free_block_queue
    if type(queue) is tiered_class():
        queue.__class__ = _queue_class()
        del queue.tiers


def tiers_of(pool: Any) -> Tiers | None:
    """The pool's tiers; None when its queue is not tiered."""
    queue = pool.free_block_queue
    return queue.tiers if type(queue) is tiered_class() else None


def release(queue: Any, block: Any) -> None:
    """Makes a free block of a tiered queue the next one to be evicted, hot no more."""
    queue.remove(block)
    queue.tiers.mark[block.block_id] = COLD
    queue.prepend_n([block])


def _take_one(queue: Any) -> Any:
    """Unlinks the next block to be given away, after moving hot ones out of the way."""
    tiers, head = queue.tiers, queue.fake_free_list_head
    share, mark = tiers.share, tiers.mark
    while True:
        block = head.next_free_block
        key = block.block_hash
        if block is tiers.first_kept or (share.kept > share.target and key is not None):
            block = _take_kept(tiers)
        elif mark[block.block_id] != COLD:
            if tiers.moves_left and _may_stay(tiers, block):
                tiers.moves_left -= 1
                _keep(queue, block)
                continue
            if key is not None:
                share.memory[key] = (share.turn, share.hot_turn)
        elif key is not None:
            share.turn += 1
            if share.kept:
                share.memory[key] = share.turn
        _unlink(block)
        mark[block.block_id] = COLD
        return block


def _take_kept(tiers: Tiers) -> Any:
    """The oldest kept block, which is no longer kept but still linked."""
    block = tiers.first_kept
    tiers.first_kept = block.next_free_block
    share = tiers.share
    share.kept -= 1
    if block.block_hash is not None:
        share.memory[block.block_hash] = (tiers.left_at[block.block_id], share.hot_turn)
    return block


def _may_stay(tiers: Tiers, block: Any) -> bool:
    """A hot block's turn to be evicted has come: whether it is kept instead."""
    share, number = tiers.share, block.block_id
    if block.block_hash is not None:
        share.turn += 1
        share.hot_turn += 1
    elif number not in tiers.watched:
        return False
    fresh = tiers.now_s - tiers.freed_at_s[number] <= tiers.hot_ttl_s or number in tiers.watched
    return share.target >= 1 and fresh


def _keep(queue: Any, block: Any) -> None:
    """Moves a block from the head to the end of the second part."""
    tiers, tail = queue.tiers, queue.fake_free_list_tail
    _unlink(block)
    last = tail.prev_free_block
    last.next_free_block = tail.prev_free_block = block
    block.prev_free_block, block.next_free_block = last, tail
    if tiers.first_kept is tail:
        tiers.first_kept = block
    share = tiers.share
    share.kept += 1
    tiers.mark[block.block_id] = KEPT
    tiers.left_at[block.block_id] = share.turn


def _unlink(block: Any) -> None:
    before, after = block.prev_free_block, block.next_free_block
    before.next_free_block = after
    after.prev_free_block = before
    block.prev_free_block = block.next_free_block = None
