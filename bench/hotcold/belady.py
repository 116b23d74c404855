"""Belady's optimum on a chained prefix cache: what an oracle that knows every later lookup would have hit.

It replays a recording with the same pins. The pool holds all blocks but vLLM's null block; blocks without a hash go
first; the victim is the free block whose next lookup is farthest, ties deepest in the chain; a hit counts as the
contiguous beginning of the chain. (On a chained cache the farthest next lookup is the yardstick rather than a proven
bound: a hit also needs all blocks before it.) Belongs here: that. Never: a policy that could exist.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right

from bench.hotcold.record import Recording

_NEVER = 1 << 60


class Belady:
    """One replay. `hits` is filled by `run`: blocks hit, by admission."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._lookups: dict[bytes, list[int]] = {}
        for request, admission in enumerate(recording.admissions):
            for key in admission.chain[: recording.limit(request)]:
                self._lookups.setdefault(key, []).append(request)
        capacity = recording.pool_blocks - 1
        self._unhashed = list(range(capacity))
        self._pins = [0] * capacity
        self._keys: list[tuple[bytes, int] | None] = [None] * capacity
        """What each block caches, and how deep in its chain that is."""
        self._holders: dict[bytes, list[int]] = {}
        """Blocks that cache a hash: several when requests computed it side by side."""
        self._heap: list[tuple[int, int, int]] = []
        """Free cached blocks as (-next lookup, -depth, block); stale entries are skipped."""
        self._held: dict[int, list[int]] = {}
        self._now = -1
        self.hits: list[int] = []

    def run(self) -> list[int]:
        """Blocks hit, by admission. Raises ``IndexError`` when the recording pins more blocks than there are."""
        for event in self._recording.events:
            if event.kind == "lookup":
                self._lookup(event.request)
            elif event.kind == "grow":
                self._grow(event.request, event.blocks, event.hashed)
            else:
                self._free(event.request)
        return self.hits

    def _lookup(self, request: int) -> None:
        self._now = request
        keys = self._recording.admissions[request].chain[: self._recording.limit(request)]
        held: list[int] = []
        for key in keys:
            holders = self._holders.get(key)
            if not holders:
                break
            block = next((holder for holder in holders if self._pins[holder]), holders[0])
            self._pins[block] += 1
            held.append(block)
        self.hits.append(len(held))
        self._held[request] = held
        for key in keys:
            for block in self._holders.get(key, ()):
                self._offer(block)

    def _grow(self, request: int, blocks: int, hashed: int) -> None:
        held = self._held[request]
        while len(held) < blocks:
            block = self._unhashed.pop() if self._unhashed else self._victim()
            self._pins[block] = 1
            held.append(block)
        for depth, key in enumerate(self._recording.admissions[request].chain[:hashed]):
            block = held[depth]
            if self._keys[block] is None:
                self._keys[block] = (key, depth)
                self._holders.setdefault(key, []).append(block)

    def _free(self, request: int) -> None:
        for block in self._held.pop(request):
            self._pins[block] -= 1
            if not self._pins[block]:
                if self._keys[block] is None:
                    self._unhashed.append(block)
                else:
                    self._offer(block)

    def _offer(self, block: int) -> None:
        """Puts a block among the victims, if it is free, with its next lookup as it is now."""
        cached = self._keys[block]
        if self._pins[block] or cached is None:
            return
        heapq.heappush(self._heap, (-self._next_lookup(cached[0]), -cached[1], block))

    def _next_lookup(self, key: bytes) -> int:
        lookups = self._lookups.get(key, ())
        index = bisect_right(lookups, self._now)
        return lookups[index] if index < len(lookups) else _NEVER

    def _victim(self) -> int:
        while True:
            when, depth, block = heapq.heappop(self._heap)
            cached = self._keys[block]
            if self._pins[block] or cached is None or cached[1] != -depth:
                continue
            if -when != self._next_lookup(cached[0]):
                continue
            self._keys[block] = None
            self._holders[cached[0]].remove(block)
            return block
