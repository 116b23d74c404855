"""Laws of the purge: which blocks it empties, in which order, in which pieces, and that nobody loses a token.

Belongs here: the purge on a pool and under a real scheduler in this process. Never: how long it takes; the bench
measures that.
"""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

pytest.importorskip("vllm")

from vllm_governor_engine.cache import purge as purge_module
from vllm_governor_engine.cache import tiers
from vllm_governor_engine.cache.pools import block_bytes, pools_of
from vllm_governor_engine.cache.purge import Purge

from bench.emulated_gpu.inprocess import EngineSettings, InProcessEngine
from bench.hotcold.governed import with_tiers


class Ticks:
    """A clock that goes on by a millisecond whenever it is read, so that each piece does one bit of work."""

    def __init__(self, step_s: float = 0.0005) -> None:
        self.now_s = 0.0
        self.step_s = step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def _pool(cached: int, empty: int = 0, events: bool = False) -> Any:
    """A pool of free blocks, block 1 the coldest; the last `empty` hold nothing and are at the head."""
    from vllm.v1.core.block_pool import BlockPool

    pool = BlockPool(cached + empty + 1, enable_caching=True, hash_block_size=16, enable_kv_cache_events=events)
    blocks = pool.get_new_blocks(cached + empty)
    for block in blocks[:cached]:
        pool._insert_block_hash(block.block_id.to_bytes(36, "big"), block, 16)
    pool.free_blocks(blocks)
    return pool


def _cached(pool: Any) -> list[int]:
    return [block.block_id for block in pool.blocks if block.block_hash is not None]


def _run(pool: Any, ratio: float, clock: Any = None) -> Purge:
    purge = Purge([pool], ratio, 100)
    clock = clock or Ticks()
    for _ in range(10_000):
        if not purge.piece(clock):
            return purge
    raise AssertionError("the purge does not end")


@pytest.mark.parametrize("tiered", [False, True])
@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.5, 1.0])
def test_a_purge_empties_the_share_asked_for_coldest_first_and_says_so(ratio: float, tiered: bool) -> None:
    pool = _pool(cached=3000, empty=50)
    if tiered:
        tiers.switch_on(pool, 0.0)
    report = _run(pool, ratio).report()
    gone = math.ceil(3000 * ratio)
    assert (report.blocks, report.bytes, report.done) == (gone, gone * 100, True)
    assert _cached(pool) == list(range(gone + 1, 3001))
    assert len(pool.cached_block_hash_to_block) == 3000 - gone
    assert pool.get_num_free_blocks() == 3050
    assert report.pieces < 3050 / purge_module.BATCH + 20  # it never walks twice where it has been


def test_pieces_are_bounded_by_blocks_and_by_time() -> None:
    pool = _pool(cached=20_000)
    purge = Purge([pool], 1.0, 1)
    before = 0
    while purge.piece(lambda: 0.0):  # time stands still: only the bound on blocks ends a piece
        assert purge.report().blocks - before <= purge_module.MOST_BLOCKS
        before = purge.report().blocks
    slow = _run(_pool(cached=2000), 1.0, Ticks(0.0005)).report()
    assert slow.pieces >= 2000 / purge_module.BATCH
    assert slow.blocks == 2000


def test_blocks_in_use_and_blocks_somebody_reads_are_left_alone() -> None:
    pool = _pool(cached=300)
    used = [pool.blocks[number] for number in range(1, 101)]
    pool.touch(used)
    read = [pool.blocks[number] for number in range(101, 121)]
    pool.touch(read)
    if not hasattr(pool, "unpin_blocks"):
        pytest.skip("this vLLM has no block that is free and read")
    pool.unpin_blocks(read, lambda block: None)
    report = _run(pool, 1.0).report()
    assert report.blocks == 180
    assert _cached(pool) == list(range(1, 121))


def test_the_share_is_of_what_is_free_and_cached() -> None:
    pool = _pool(cached=300, empty=100)
    pool.touch([pool.blocks[number] for number in range(1, 101)])
    assert _run(pool, 0.5).report().blocks == 100


def test_a_place_that_moved_to_the_end_of_the_list_does_not_end_the_purge() -> None:
    pool = _pool(cached=1000)
    purge, clock = Purge([pool], 1.0, 1), Ticks()
    while not purge.report().blocks:
        purge.piece(clock)
    emptied = pool.get_new_blocks(purge.report().blocks)
    for block in emptied:
        pool._insert_block_hash((5000 + block.block_id).to_bytes(36, "big"), block, 16)
    pool.free_blocks(emptied)
    while purge.piece(clock):
        pass
    assert (_cached(pool), purge.report().blocks) == ([block.block_id for block in emptied], 1000)


def test_hot_blocks_go_last_and_hold_no_room_afterwards() -> None:
    pool = _pool(cached=300)
    state = tiers.switch_on(pool, 0.0)
    state.share.bound(100, 0)
    for number in range(1, 51):
        state.mark[number] = tiers.HOT
    pool.free_blocks(pool.get_new_blocks(1))  # moves the hot ones out of the way
    assert state.share.kept == 50
    for number in range(100, 110):
        state.mark[number] = tiers.HOT
    report = _run(pool, 0.5).report()
    assert report.blocks == 150
    hot = [*range(1, 51), *range(100, 110)]
    assert set(hot) <= set(_cached(pool))
    first = [block.block_id for block in pool.free_block_queue.get_all_free_blocks()][:151]
    assert all(pool.blocks[number].block_hash is None for number in first)
    _run(pool, 1.0)
    assert _cached(pool) == []
    assert state.share.kept == 0


@pytest.mark.parametrize("tiered", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_purge_ends_and_stays_right_whatever_the_engine_does_between_its_pieces(seed: int, tiered: bool) -> None:
    source = random.Random(seed)
    pool = _pool(cached=2000)
    if tiered:
        state = tiers.switch_on(pool, 0.0)
        state.share.bound(600, 0)
        for number in source.sample(range(1, 2001), 400):
            state.mark[number] = tiers.HOT
    purge = Purge([pool], 1.0, 1)
    clock, used, fresh = Ticks(), [], 10_000
    for _ in range(5000):
        if not purge.piece(clock):
            break
        used += pool.get_new_blocks(source.randint(0, 20))
        for block in used:
            if block.block_hash is None and source.random() < 0.5:
                fresh += 1
                pool._insert_block_hash(fresh.to_bytes(36, "big"), block, 16)
        cached = [block for block in pool.free_block_queue.get_all_free_blocks() if block.block_hash is not None]
        hit = source.sample(cached, min(len(cached), 5))
        pool.touch(hit)
        used += hit
        source.shuffle(used)
        pool.free_blocks(used[:15])
        used = used[15:]
    assert purge.report().done
    assert purge.report().blocks <= 2000
    left = [n for n in _cached(pool) if pool.blocks[n].ref_cnt == 0]
    assert len(left) < 2000 - purge.report().blocks + 600
    pool.free_blocks(used)
    assert len(pool.free_block_queue.get_all_free_blocks()) == pool.get_num_free_blocks() == 2000


def test_each_emptied_block_is_told_to_whoever_listens() -> None:
    pool = _pool(cached=200, events=True)
    pool.take_events()
    _run(pool, 0.5)
    assert len(pool.take_events()) == 100


def test_while_it_evicts_it_can_be_told_from_the_load() -> None:
    pool = _pool(cached=100)
    purge = Purge([pool], 1.0, 1)
    seen: list[bool] = []
    inner = pool.evict_blocks

    def evict_blocks(ids: set[int]) -> None:
        seen.append(purge.evicting)
        inner(ids)

    pool.evict_blocks = evict_blocks
    while purge.piece(Ticks()):
        assert not purge.evicting
    assert seen
    assert all(seen)


@pytest.mark.parametrize("ratio", [-0.1, 1.1, math.nan])
def test_a_share_out_of_bounds_is_refused(ratio: float) -> None:
    with pytest.raises(ValueError, match="cannot purge"):
        Purge([], ratio, 1)


@pytest.mark.parametrize("async_scheduling", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("tiered", [False, True])
def test_requests_before_during_and_after_a_purge_get_exactly_their_own_tokens(
    tiered: bool, async_scheduling: bool
) -> None:
    source = random.Random(3)
    beginning = [source.randrange(8, 500) for _ in range(128)]
    settings = EngineSettings(async_scheduling=async_scheduling, num_blocks=400, max_num_seqs=8)
    with InProcessEngine(settings) as engine:
        if tiered:
            with_tiers(engine, ratio=0.4)
        answers: dict[str, list[int]] = {}
        purges: list[Purge] = []
        clock = Ticks()
        size = block_bytes(engine.scheduler.kv_cache_manager.kv_cache_config)
        for number in range(300):
            tail = [source.randrange(8, 500) for _ in range(source.randint(1, 60))]
            engine.add_request(f"r{number}", beginning + tail, 25)
            if number % 60 == 59:
                purges.append(Purge(pools_of(engine.scheduler), source.choice((0.5, 1.0)), size))
            for _ in range(4):
                if purges:
                    purges[-1].piece(clock)
                for request_id, tokens in engine.step().items():
                    answers.setdefault(request_id, []).extend(tokens)
        for request_id, tokens in engine.run_until_idle().items():
            answers.setdefault(request_id, []).extend(tokens)
        assert answers == {f"r{number}": engine.expected(f"r{number}", 25) for number in range(300)}
        assert sum(purge.report().blocks for purge in purges) > 100


def test_a_purged_prompt_is_computed_anew_and_answered_the_same() -> None:
    with InProcessEngine(EngineSettings(num_blocks=200)) as engine:
        seen: list[int] = []
        inner = engine.scheduler.schedule

        def schedule(*args: Any, **kwargs: Any) -> Any:
            output = inner(*args, **kwargs)
            seen.extend(new.num_computed_tokens for new in output.scheduled_new_reqs)
            return output

        engine.scheduler.schedule = schedule
        for name in ("a", "b"):
            engine.add_request(name, range(8, 108), 5)
            assert engine.run_until_idle() == {name: engine.expected(name, 5)}
        manager = engine.scheduler.kv_cache_manager
        pool = manager.block_pool
        assert pools_of(engine.scheduler) == [pool]
        assert (
            block_bytes(manager.kv_cache_config)
            == sum(tensor.size for tensor in manager.kv_cache_config.kv_cache_tensors) // 200
        )
        _run(pool, 1.0)
        assert len(pool.cached_block_hash_to_block) == 0
        engine.add_request("c", range(8, 108), 5)
        assert engine.run_until_idle() == {"c": engine.expected("c", 5)}
        assert seen == [0, 96, 0]
