"""Empties a share of the free cached blocks, coldest first, in pieces that never hold the engine up.

Here: one purge, from counting to its report. Never here: who asks for it, or preemption. It relieves nothing by itself
but a crowded cache: a free cached block is given to whoever needs one anyway.

Only blocks nobody uses are touched (a block in use that lost its hash would count as writable), and of those none that
somebody still reads. With KV events on an eviction costs five times as much; the pieces are bounded by time as well,
so they hold fewer then. vLLM sends the events out with its next step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from . import tiers
from .walk import ColdWalk

PIECE_S = 0.0008
"""Seconds after which a piece ends; the last batch may take it a little further."""
BATCH = 64
"""Blocks evicted between two looks at the clock: some 0.03 ms, 0.2 ms with KV events on."""
VISITS = 1024
"""Blocks looked at between two looks at the clock: some 0.1 ms."""
MOST_BLOCKS = 4096
"""Blocks evicted at most in one piece."""

Clock = Callable[[], float]


@dataclass(frozen=True)
class PurgeReport:
    """What a purge has done so far."""

    done: bool
    blocks: int
    """Blocks emptied."""
    bytes: int
    """Their size on one worker, bytes."""
    microseconds: int
    """Time it took of the engine's thread, all pieces together."""
    pieces: int
    longest_us: int
    """The longest piece, microseconds."""


class Purge:
    """One purge of `ratio` (0..1) of the free cached blocks of `pools`. Call `piece` until it answers False.

    Between two pieces the engine may do anything, so a piece per step is what costs requests least; an idle engine may
    run them one after the other. `clock` is monotonic seconds.
    """

    def __init__(self, pools: Iterable[Any], ratio: float, block_bytes: int) -> None:
        if not 0 <= ratio <= 1:
            raise ValueError(f"cannot purge ratio={ratio!r}: it must be from 0 to 1")
        self._purges = [_PoolPurge(pool, ratio) for pool in pools if pool.enable_caching]
        self._waiting = list(self._purges) if ratio > 0 else []
        self._block_bytes = block_bytes
        self._spent_s = self._longest_s = 0.0
        self._pieces = 0
        self.evicting = False
        """True while blocks are being emptied, so that a count of evictions can tell the purge's from the load's."""

    def piece(self, clock: Clock) -> bool:
        """Does about a millisecond's work. Returns whether there is more."""
        if not self._waiting:
            return False
        began_s = clock()
        self.evicting = True
        try:
            if self._waiting[0].piece(clock, began_s + PIECE_S):
                self._waiting.pop(0)
        finally:
            self.evicting = False
        took_s = clock() - began_s
        self._spent_s += took_s
        self._longest_s = max(self._longest_s, took_s)
        self._pieces += 1
        return bool(self._waiting)

    def report(self) -> PurgeReport:
        """What was done up to now."""
        blocks = sum(purge.emptied for purge in self._purges)
        return PurgeReport(
            done=not self._waiting,
            blocks=blocks,
            bytes=blocks * self._block_bytes,
            microseconds=round(self._spent_s * 1e6),
            pieces=self._pieces,
            longest_us=round(self._longest_s * 1e6),
        )


class _PoolPurge:
    """One pool's part: count the free cached blocks, then empty the cold ones, then, if that is not enough, the hot."""

    def __init__(self, pool: Any, ratio: float) -> None:
        self._pool = pool
        self._ratio = ratio
        self._counted = 0
        self._free_cached = 0
        self._target: int | None = None
        self._walk = ColdWalk(pool)
        self._hot_too = False
        self._found_in_pass = False
        self.emptied = 0

    def piece(self, clock: Clock, until_s: float) -> bool:
        """Works until a moment. Returns whether all is done."""
        evicted_before = self.emptied
        while clock() < until_s and self.emptied - evicted_before < MOST_BLOCKS:
            if self._target is None:
                self._count()
            elif self._evict(self._target - self.emptied):
                return True
        return False

    def _count(self) -> None:
        blocks = self._pool.blocks
        for block in blocks[self._counted : self._counted + VISITS]:
            if block.ref_cnt == 0 and block.block_hash is not None:
                self._free_cached += 1
        self._counted += VISITS
        if self._counted >= len(blocks):
            self._target = math.ceil(self._ratio * self._free_cached)

    def _evict(self, left: int) -> bool:
        """One batch. Returns whether nothing is left to do."""
        if left <= 0:
            return True
        found = self._walk.piece(VISITS, min(left, BATCH), self._wanted())
        self._walk.empty(found)
        self.emptied += len(found)
        self._found_in_pass |= bool(found)
        if not self._walk.at_end:
            return False
        # Something may have been passed over while the list changed: only a walk that finds nothing is the last.
        self._walk.restart()
        finished, self._found_in_pass = not self._found_in_pass, False
        if finished and not self._hot_too:
            self._hot_too = True
            return False
        return finished

    def _wanted(self) -> Callable[[Any], bool]:
        watched = getattr(self._pool, "_reuse_watchers", {})
        state = None if self._hot_too else tiers.tiers_of(self._pool)
        if state is None:
            return lambda block: block.block_id not in watched
        mark = state.mark
        return lambda block: mark[block.block_id] == tiers.COLD and block.block_id not in watched
