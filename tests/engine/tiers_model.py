"""The order of free blocks said once more with plain lists, and random operations that hold the queue against it.

Belongs here: the model, the operations, the check of a list. Never: a test.
"""

from __future__ import annotations

import math
import random
from typing import Any

from vllm_governor_engine.cache import tiers

BLOCKS = 60


def new_pool(blocks: int = BLOCKS) -> Any:
    from vllm.v1.core.block_pool import BlockPool

    return BlockPool(blocks, enable_caching=True, hash_block_size=16)


def forward(pool: Any) -> list[int]:
    return [block.block_id for block in pool.free_block_queue.iter_blocks_after(None)]


def check_list(pool: Any) -> None:
    """Both directions, the count, every way of listing, and where the second part begins."""
    queue = pool.free_block_queue
    listed = forward(pool)
    backward = []
    block = queue.fake_free_list_tail.prev_free_block
    while block is not queue.fake_free_list_head:
        backward.append(block.block_id)
        block = block.prev_free_block
    assert backward[::-1] == listed == [block.block_id for block in queue.get_all_free_blocks()]
    assert len(listed) == len(set(listed)) == queue.num_free_blocks == pool.get_num_free_blocks()
    state = tiers.tiers_of(pool)
    if state is not None:
        kept = [number for number in listed if state.mark[number] == tiers.KEPT]
        assert len(kept) == state.share.kept
        assert kept == listed[len(listed) - len(kept) :]
        first = pool.blocks[kept[0]] if kept else queue.fake_free_list_tail
        assert state.first_kept is first
        assert all(state.mark[number] != tiers.KEPT for number in set(range(len(pool.blocks))) - set(listed))


class Model:
    """The order of free blocks said once more, with plain lists; `tiered` False is vLLM's own queue."""

    def __init__(self, free: list[int]) -> None:
        self.main = free
        self.kept: list[int] = []
        self.hot: set[int] = set()
        self.full: set[int] = set()
        """Blocks with something cached in them."""
        self.freed_at: dict[int, float] = {}
        self.target = 0.0
        self.ttl = math.inf
        self.now = 0.0
        self.tiered = False

    def switch(self, on: bool) -> None:
        self.main, self.kept, self.hot, self.tiered = self.main + self.kept, [], set(), on
        self.freed_at = dict.fromkeys(range(BLOCKS), self.now)

    def take(self) -> int:
        while self.tiered:
            head = self.main[0] if self.main else None
            if head is None or (len(self.kept) > self.target and head in self.full):
                return self._gone(self.kept.pop(0))
            fresh = self.now - self.freed_at[head] <= self.ttl
            if not (head in self.hot and head in self.full and self.target >= 1 and fresh):
                break
            self.kept.append(self.main.pop(0))
        return self._gone(self.main.pop(0))

    def _gone(self, number: int) -> int:
        self.hot.discard(number)
        self.full.discard(number)
        return number

    def free(self, numbers: list[int]) -> None:
        self.main += numbers
        self.freed_at.update(dict.fromkeys(numbers, self.now))

    def free_first(self, numbers: list[int]) -> None:
        self.main[:0] = numbers
        self.hot -= set(numbers)

    def remove(self, number: int) -> None:
        (self.main if number in self.main else self.kept).remove(number)


class Fuzz:
    """One pool, its model and a source of random operations, which reach the queue the way vLLM's pool does."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pool = new_pool()
        self.model = Model(list(range(1, BLOCKS)))
        self.used: list[int] = []
        self.hashes = 0

    @property
    def state(self) -> tiers.Tiers | None:
        return tiers.tiers_of(self.pool)

    def step(self) -> None:
        choices = (self.allocate, self.allocate, self.free, self.free, self.touch, self.mark, self.change, self.drop)
        self.random.choice(choices)()
        expected = self.model.main + self.model.kept
        assert forward(self.pool) == expected
        check_list(self.pool)

    def allocate(self) -> None:
        free = self.pool.get_num_free_blocks()
        count = self.random.randint(0, min(8, free))
        if count == 1 and self.random.random() < 0.5:
            taken = [self.pool.free_block_queue.popleft()]
            self.pool._maybe_evict_cached_block(taken[0])
            taken[0].ref_cnt += 1
        else:
            taken = self.pool.get_new_blocks(count)
        expected = [self.model.take() for _ in range(count)]
        assert [block.block_id for block in taken] == expected
        assert all(block.prev_free_block is None and block.next_free_block is None for block in taken)
        self.used += expected

    def free(self) -> None:
        self.random.shuffle(self.used)
        count = self.random.randint(0, min(8, len(self.used)))
        numbers, self.used = self.used[:count], self.used[count:]
        for number in numbers:
            block = self.pool.blocks[number]
            if block.block_hash is None and self.random.random() < 0.8:
                self.hashes += 1
                self.pool._insert_block_hash(self.hashes.to_bytes(36, "big"), block, 16)
                self.model.full.add(number)
        if count == 1 and numbers[0] in self.model.full and self.random.random() < 0.5:
            self.pool.blocks[numbers[0]].ref_cnt -= 1
            self.pool.free_block_queue.append(self.pool.blocks[numbers[0]])
        else:
            self.pool.free_blocks([self.pool.blocks[number] for number in numbers])
        self.model.free_first([number for number in numbers if number not in self.model.full])
        self.model.free([number for number in numbers if number in self.model.full])

    def touch(self) -> None:
        cached = sorted(set(forward(self.pool)) & self.model.full)
        for number in self.random.sample(cached, min(len(cached), self.random.randint(0, 3))):
            self.pool.touch([self.pool.blocks[number]])
            self.model.remove(number)
            self.used.append(number)

    def mark(self) -> None:
        if self.state is not None:
            hit = [n for n in self.used if n in self.model.full and self.random.random() < 0.4]
            for number in hit:
                self.state.mark[number] = tiers.HOT
            self.model.hot |= set(hit)

    def change(self) -> None:
        model, state = self.model, self.state
        model.now += self.random.choice((0.0, 1.0, 5.0))
        if self.random.random() < 0.15:
            if state is None:
                tiers.switch_on(self.pool, model.now)
            else:
                tiers.switch_off(self.pool)
            model.switch(on=state is None)
            model.target, model.ttl = 0.0, math.inf
        elif state is not None:
            state.now_s = model.now
            model.ttl = state.hot_ttl_s = self.random.choice((math.inf, 8.0))
            model.target = state.share.target = self.random.choice((0.0, 1.0, 5.5, 20.0))
            state.share.remembers = 30

    def drop(self) -> None:
        cached = sorted(set(forward(self.pool)) & self.model.full)
        dropped = self.random.sample(cached, min(len(cached), self.random.randint(0, 2)))
        self.pool.evict_blocks(set(dropped))
        self.model.full -= set(dropped)
