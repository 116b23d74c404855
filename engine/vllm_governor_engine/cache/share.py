"""How much of the hot tier's room is worth using: the cache kept honest against plain LRU.

Here: the score of what the tier wins and loses, and the number of blocks it may keep. Never here: a list of blocks.

Every block that has its turn to be evicted by LRU "leaves": it is kept (hot) or evicted. LRU, given the same pool,
would still hold the last `kept` leavers, because that is the room the kept blocks take up. So both outcomes can be
told exactly, with a counter and a bounded memory of evicted hashes:

- a hit on a kept block that left earlier than that is a win: LRU would have lost it;
- a lookup of an evicted hash that left later than that is a loss: LRU would still have it.

A win lets the tier grow by one block, a loss shrinks it by two, a hot block that came back after the tier had no room
for it lets it grow a little. Wins must therefore outweigh losses for the tier to live, and a load that LRU serves
better (conversations, say) gets LRU. Tried on 23 recorded loads at ratios of 0.3 and 0.4: a fixed share cost up to a
third of LRU's hits; this one cost up to 2 %, and 4 % where every prompt came exactly twice, and kept nearly all that a
fixed share won. (Remembering what was evicted is ARC's idea, Megiddo and Modha 2003; comparing with LRU exactly is what
this structure allows.)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

Key = Any
"""A block's hash with its group, as vLLM makes it."""

LOSS_WEIGHT = 2.0
"""Blocks the tier shrinks by when LRU would have hit and it did not. Above 1, since an even score is not worth it."""
RETURN_WEIGHT = 0.1
"""Blocks it grows by when a hot block is asked for that it had no room for: enough to try again, not to insist."""

FORGETS_PER_CALL = 2048
"""Hashes forgotten at most in one call, about 0.1 us each, unless the call added more than half of that."""


class Share:
    """The tier's size, in blocks. `limit` bounds it from above, `floor` (the minimum size) from below."""

    __slots__ = ("floor", "hot_turn", "kept", "limit", "losses", "memory", "remembers", "target", "turn", "wins")

    def __init__(self) -> None:
        self.limit = 0
        self.floor = 0
        self.target = 0.0
        """Blocks the tier may keep now."""
        self.kept = 0
        """Blocks it keeps now."""
        self.turn = 0
        """Blocks that have left so far."""
        self.hot_turn = 0
        """Those of them that were hot."""
        self.memory: OrderedDict[Key, int | tuple[int, int]] = OrderedDict()
        """Evicted hashes, oldest first: the turn a cold block left at; of a hot one that and the hot turn."""
        self.remembers = 0
        """Hashes remembered at most: those of LRU's room and of the hot ones there was no room for."""
        self.wins = 0
        """Blocks hit so far that LRU would have lost."""
        self.losses = 0
        """Blocks not hit so far that LRU would have hit."""

    def bound(self, limit: int, floor: int) -> None:
        """New bounds. A higher limit is used at once: what the tier wins can only be seen by trying."""
        grown = limit > self.limit
        self.limit, self.floor, self.remembers = limit, min(floor, limit), 2 * limit
        self.target = float(limit) if grown else min(max(self.target, self.floor), limit)
        self.forget_old()

    def forget_old(self, added: int = 0) -> None:
        """Drops what was evicted too long ago to matter; after a much lower limit not all of it at once.

        Twice as many as the call `added`, so that the memory shrinks to its bound however large the calls are.
        """
        memory = self.memory
        for _ in range(min(len(memory) - self.remembers, max(FORGETS_PER_CALL, 2 * added))):
            memory.popitem(last=False)

    def won(self, blocks: int) -> None:
        """Blocks were hit that LRU would have lost."""
        self.wins += blocks
        self.target = min(self.limit, self.target + blocks)

    def missed(self, keys: Iterable[Key], key_of: Callable[[Any], Key]) -> None:
        """What a lookup went on to ask for behind its hit, in the chain's order, as far as it is remembered."""
        memory = self.memory
        lost = returned = 0
        for raw in keys:
            seen = memory.pop(key_of(raw), None)
            if seen is None:
                break
            turn, hot_turn = (seen, None) if isinstance(seen, int) else seen
            if self.turn - turn <= self.kept:
                lost += 1
            elif hot_turn is not None and self.hot_turn - hot_turn <= self.limit:
                returned += 1
        self.losses += lost
        wanted = self.target - LOSS_WEIGHT * lost + RETURN_WEIGHT * returned
        self.target = min(self.limit, max(self.floor, wanted))
