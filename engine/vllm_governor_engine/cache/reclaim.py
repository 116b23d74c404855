"""Drops expired cold blocks ahead of need when the pool is nearly full of cached ones.

Here: when there are too many, and which may go. Never here: settings, time, the walk itself.
"""

from __future__ import annotations

from typing import Any

from . import tiers
from .walk import ColdWalk

VISITS = 1024
"""Blocks looked at most in one turn, about 0.1 ms."""
RESTART_TURNS = 100
"""After so many turns the walk begins at the head again, for the sake of blocks it passed over when they were hot."""


class Reclaimer:
    """One pool's reclaim. Needs its queue tiered, which is what knows how old a block is."""

    def __init__(self, pool: Any, state: tiers.Tiers) -> None:
        self._pool = pool
        self._tiers = state
        self._walk = ColdWalk(pool)
        self._turns = 0
        self.blocks = 0
        """Blocks dropped so far."""

    def turn(self, threshold: float, expired_before_s: float, most: int) -> int:
        """Drops `most` blocks at most, last used before a moment, while more than `threshold` of the pool is taken."""
        self._turns += 1
        if self._turns % RESTART_TURNS == 0:
            self._walk.restart()
        too_many = self.taken_blocks() - int(threshold * (self._pool.num_gpu_blocks - 1))
        if too_many <= 0:
            return 0
        state = self._tiers

        def expired(block: Any) -> bool | None:
            number = block.block_id
            if state.mark[number] == tiers.KEPT or state.freed_at_s[number] > expired_before_s:
                return None  # the list is in order of age up to there, so all that follow are younger
            hot = state.mark[number] != tiers.COLD and state.now_s - state.freed_at_s[number] <= state.hot_ttl_s
            return not hot and number not in state.watched

        blocks = self._walk.piece(VISITS, min(most, too_many), expired)
        self._walk.empty(blocks)
        self.blocks += len(blocks)
        return len(blocks)

    def taken_blocks(self) -> int:
        """Blocks in use or cached, told without a look at any: those in use, or the hashes known if they are more.

        Too low by the unfinished last blocks of running requests and by copies of the same contents.
        """
        return int(max(self._in_use_blocks(), len(self._pool.cached_block_hash_to_block)))

    def free_cached_blocks(self) -> int:
        """Blocks that are free and cached, as far off as `taken_blocks` is."""
        return self.taken_blocks() - self._in_use_blocks()

    def _in_use_blocks(self) -> int:
        return int(self._pool.num_gpu_blocks - 1 - self._pool.get_num_free_blocks())
