"""Laws of the two-tier cache: the order of free blocks, what is hot, what keeping it wins, and that tokens stay exact.

Belongs here: the queue against a model, the settings, the tiers under a real scheduler in this process. Never: the
purge, or a hit rate that the bench measures.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm")

from vllm_governor_engine.cache import pools, tiers
from vllm_governor_engine.cache.hot import HotCache, HotSettings
from vllm_governor_engine.cache.share import FORGETS_PER_CALL, LOSS_WEIGHT, Share

from bench.emulated_gpu.inprocess import EngineSettings, InProcessEngine
from bench.hotcold.governed import with_tiers
from tests.engine.tiers_model import Fuzz, check_list, forward, new_pool


def _scheduler(pool: Any) -> Any:
    """As much of a scheduler as the tiers look at."""
    from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager

    manager = object.__new__(FullAttentionManager)
    manager.block_pool, manager.block_size = pool, 16
    coordinator = SimpleNamespace(single_type_managers=[manager])
    return SimpleNamespace(
        kv_cache_manager=SimpleNamespace(block_pool=pool, coordinator=coordinator), requests={}, connector=None
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_queue_orders_blocks_as_the_model_does_through_thousands_of_operations_and_switches(seed: int) -> None:
    fuzz = Fuzz(seed)
    for _ in range(1500):
        fuzz.step()
    assert fuzz.hashes > 500


def test_switching_on_and_off_keeps_the_object_its_references_and_its_order() -> None:
    pool = new_pool()
    queue, stock = pool.free_block_queue, type(pool.free_block_queue)
    head, tail, order = queue.fake_free_list_head, queue.fake_free_list_tail, forward(pool)
    attributes = set(vars(queue))
    tiers.switch_on(pool, 0.0)
    assert pool.free_block_queue is queue
    assert isinstance(queue, stock)
    assert type(queue) is not stock
    assert (queue.fake_free_list_head, queue.fake_free_list_tail) == (head, tail)
    walk = queue.iter_blocks_after(pool.blocks[order[3]])
    tiers.switch_off(pool)
    tiers.switch_off(pool)
    assert type(queue) is stock
    assert set(vars(queue)) == attributes
    assert [block.block_id for block in walk] == order[4:]
    assert forward(pool) == order
    check_list(pool)


def test_an_empty_queue_refuses_as_vllms_does() -> None:
    pool = new_pool(4)
    tiers.switch_on(pool, 0.0)
    pool.get_new_blocks(3)
    assert pool.free_block_queue.popleft_n(0) == []
    with pytest.raises(ValueError, match="No free blocks"):
        pool.free_block_queue.popleft()
    with pytest.raises(AssertionError):
        pool.free_block_queue.popleft_n(1)
    with pytest.raises(RuntimeError):
        pool.free_block_queue.remove(pool.blocks[1])
    check_list(pool)


def _cached(pool: Any, count: int, first: int = 0) -> list[Any]:
    """Blocks in use, each with something of its own cached in it."""
    blocks = pool.get_new_blocks(count)
    for place, block in enumerate(blocks):
        pool._insert_block_hash((first + place + 1).to_bytes(36, "big"), block, 16)
    return list(blocks)


def test_a_block_that_somebody_still_reads_outlives_cold_ones() -> None:
    pool = new_pool(21)
    state = tiers.switch_on(pool, 0.0)
    state.share.bound(10, 0)
    cold, read = _cached(pool, 10), pool.get_new_blocks(10)
    reused: list[int] = []
    if not hasattr(pool, "unpin_blocks"):
        pytest.skip("this vLLM has no block that is free and read")
    pool.unpin_blocks(read, lambda block: reused.append(block.block_id))
    pool.free_blocks(cold)
    assert [block.block_id for block in pool.get_new_blocks(10)] == [block.block_id for block in cold]
    assert reused == []
    pool.get_new_blocks(10)
    assert sorted(reused) == sorted(block.block_id for block in read)


def test_one_call_moves_a_bounded_number_of_hot_blocks() -> None:
    pool = new_pool(3001)
    state = tiers.switch_on(pool, 0.0)
    state.share.bound(2700, 0)
    blocks = _cached(pool, 3000)
    for block in blocks:
        state.mark[block.block_id] = tiers.HOT
    pool.free_blocks(blocks)
    pool.get_new_blocks(1)
    assert state.share.kept <= tiers.MOVES_PER_CALL
    assert pool.get_num_free_blocks() == 2999


# -- what is hot


def _hit(cache: HotCache, scheduler: Any, name: str, blocks: list[int], *, preempted: int = 0, **more: Any) -> None:
    scheduler.requests[name] = SimpleNamespace(
        num_preemptions=preempted, num_prompt_tokens=16 * len(blocks) + 1, block_hashes=[], **more
    )
    new = SimpleNamespace(req_id=name, num_computed_tokens=16 * len(blocks), block_ids=(blocks,))
    cache.after_step(SimpleNamespace(scheduled_new_reqs=[new]))


@pytest.fixture
def cache() -> Iterator[tuple[HotCache, Any, Any]]:
    pool = new_pool()
    scheduler = _scheduler(pool)
    made = HotCache(scheduler, 1 << 20)
    made.apply(HotSettings(ratio=0.5), 0.0)
    yield made, scheduler, pool
    made.off()


def _marks(pool: Any, numbers: list[int]) -> list[int]:
    state = tiers.tiers_of(pool)
    assert state is not None
    return [state.mark[number] for number in numbers]


def test_a_hit_by_another_request_makes_hot_and_a_touch_by_a_connector_does_not(
    cache: tuple[HotCache, Any, Any],
) -> None:
    made, scheduler, pool = cache
    blocks = _cached(pool, 4)
    numbers = [block.block_id for block in blocks]
    pool.free_blocks(blocks)
    pool.touch(blocks)
    assert _marks(pool, numbers) == [tiers.COLD] * 4
    _hit(made, scheduler, "b", numbers[:2])
    assert _marks(pool, numbers) == [tiers.HOT] * 2 + [tiers.COLD] * 2


def test_a_preempted_request_that_finds_its_own_blocks_makes_nothing_hot(cache: tuple[HotCache, Any, Any]) -> None:
    made, scheduler, pool = cache
    numbers = [block.block_id for block in _cached(pool, 2)]
    _hit(made, scheduler, "a", numbers, preempted=1)
    assert _marks(pool, numbers) == [tiers.COLD] * 2


def test_tokens_that_a_connector_brought_are_no_hits(cache: tuple[HotCache, Any, Any]) -> None:
    made, scheduler, pool = cache
    numbers = [block.block_id for block in _cached(pool, 4)]
    _hit(made, scheduler, "new", numbers, prefill_stats=SimpleNamespace(num_local_cached_tokens=16))
    assert _marks(pool, numbers) == [tiers.HOT] + [tiers.COLD] * 3
    _hit(made, scheduler, "old", numbers, num_external_computed_tokens=32)
    assert _marks(pool, numbers) == [tiers.HOT] * 2 + [tiers.COLD] * 2


def test_what_a_request_asks_is_forgotten_with_its_block(cache: tuple[HotCache, Any, Any]) -> None:
    made, scheduler, pool = cache
    made.apply(HotSettings(ratio=0.0, cold_ttl_s=1, reclaim_threshold=0.5), 0.0)  # tiered, but nothing may be kept
    blocks = _cached(pool, 59)
    numbers = [block.block_id for block in blocks]
    _hit(made, scheduler, "b", numbers)
    pool.free_blocks(blocks)
    pool.get_new_blocks(59)
    assert _marks(pool, numbers) == [tiers.COLD] * 59


# -- the score


def test_keeping_wins_when_lru_would_have_lost_the_block_and_only_then(cache: tuple[HotCache, Any, Any]) -> None:
    made, scheduler, pool = cache
    hot = _cached(pool, 5)
    numbers = [block.block_id for block in hot]
    _hit(made, scheduler, "a", numbers)
    pool.free_blocks(hot)
    pool.free_blocks(_cached(pool, 54, first=100))
    others = _cached(pool, 1, first=200)  # its turn moves the five out of the way
    state = tiers.tiers_of(pool)
    assert state is not None
    assert state.share.kept == 5
    pool.touch(hot[:1])
    _hit(made, scheduler, "b", numbers[:1])
    assert made.stats()["won"] == 0  # LRU's last five leavers hold it still
    pool.free_blocks(others)
    pool.free_blocks(_cached(pool, 20, first=300))
    pool.touch(hot[1:3])
    _hit(made, scheduler, "c", numbers[:3])
    assert made.stats()["won"] == 2


def test_a_share_that_loses_more_than_it_wins_goes_to_its_floor_and_comes_back_when_it_would_win() -> None:
    share = Share()
    share.bound(10, 2)
    assert share.target == 10
    share.kept, share.turn = 8, 100
    for number in range(8):
        share.memory[number] = 95
    share.missed(range(3), lambda raw: raw)
    assert (share.losses, share.target) == (3, 10 - 3 * LOSS_WEIGHT)
    share.missed(range(3, 8), lambda raw: raw)
    assert share.target == 2
    share.won(3)
    assert share.target == 5
    share.memory["hot"] = (20, share.hot_turn)
    share.missed(["hot", "unknown"], lambda raw: raw)
    assert 5 < share.target < 6


def test_what_lru_had_lost_as_well_is_no_loss() -> None:
    share = Share()
    share.bound(10, 0)
    share.kept, share.turn = 4, 100
    share.memory.update({"a": 95, "b": 96})
    share.missed(["a", "b"], lambda raw: raw)
    assert share.losses == 1


def test_a_share_remembers_no_more_than_can_matter() -> None:
    pool = new_pool()
    state = tiers.switch_on(pool, 0.0)
    state.share.bound(6, 0)
    hot = _cached(pool, 3)
    for block in hot:
        state.mark[block.block_id] = tiers.HOT
    pool.free_blocks(hot)
    for turn in range(20):
        pool.free_blocks(_cached(pool, 40, first=1000 * turn))
    assert state.share.kept == 3
    assert len(state.share.memory) <= 12
    state.share.bound(0, 0)
    assert len(state.share.memory) == 0


# -- settings and time


def test_the_ratio_bounds_the_share_and_caps_the_minimum_size(cache: tuple[HotCache, Any, Any]) -> None:
    made, _, pool = cache
    assert (made.limit_blocks, made.floor_blocks) == (30, 0)
    made.apply(HotSettings(ratio=0.5, min_size_mb=7.5), 0.0)
    assert made.floor_blocks == 8
    made.apply(HotSettings(ratio=0.1, min_size_mb=2048), 0.0)
    assert (made.limit_blocks, made.floor_blocks) == (6, 6)
    state = tiers.tiers_of(pool)
    assert state is not None
    blocks = _cached(pool, 59)
    for block in blocks:
        state.mark[block.block_id] = tiers.HOT
    pool.free_blocks(blocks)
    for turn in range(10):
        pool.free_blocks(_cached(pool, 5, first=1000 * turn))
        assert made.stats()["kept"] <= 6


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ratio", 0.91),
        ("ratio", -0.1),
        ("ratio", math.nan),
        ("min_size_mb", -1),
        ("hot_ttl_s", -1),
        ("cold_ttl_s", math.nan),
        ("reclaim_threshold", 1.1),
    ],
)
def test_a_setting_out_of_bounds_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        HotSettings(**{name: value})


def test_hot_blocks_that_nobody_uses_any_more_become_the_next_to_go(cache: tuple[HotCache, Any, Any]) -> None:
    made, scheduler, pool = cache
    made.apply(HotSettings(ratio=0.5, hot_ttl_s=10), 0.0)
    hot = _cached(pool, 5)
    numbers = [block.block_id for block in hot]
    _hit(made, scheduler, "a", numbers)
    pool.free_blocks(hot)
    pool.free_blocks(_cached(pool, 54, first=100))
    pool.free_blocks(_cached(pool, 10, first=200))
    made.before_step(9.0)
    assert made.stats()["kept"] == 5
    made.before_step(10.5)
    assert made.stats()["kept"] == 0
    assert sorted(forward(pool)[:5]) == sorted(numbers)
    check_list(pool)


def test_the_cold_blocks_counted_are_the_free_cached_ones_that_are_not_kept(
    cache: tuple[HotCache, Any, Any],
) -> None:
    made, scheduler, pool = cache
    assert made.stats()["cold"] == 0
    hot, in_use = _cached(pool, 5), _cached(pool, 10, first=50)
    _hit(made, scheduler, "a", [block.block_id for block in hot])
    pool.free_blocks(hot)
    pool.free_blocks(_cached(pool, 20, first=100))
    for turn in range(3):  # so that hot ones come to their turn
        pool.free_blocks(_cached(pool, 40, first=1000 * (turn + 1)))
        cached = [block for block in pool.blocks if block.ref_cnt == 0 and block.block_hash is not None]
        counted = made.stats()
        assert counted["kept"] + counted["cold"] == len(cached)
    assert counted["kept"] == 5
    assert len(in_use) == 10


def test_kept_blocks_hold_no_room_after_the_cache_was_reset(cache: tuple[HotCache, Any, Any]) -> None:
    made, scheduler, pool = cache
    hot = _cached(pool, 5)
    _hit(made, scheduler, "a", [block.block_id for block in hot])
    pool.free_blocks(hot)
    pool.free_blocks(_cached(pool, 54, first=100))
    pool.free_blocks(_cached(pool, 10, first=200))
    assert made.stats()["kept"] == 5
    assert pool.reset_prefix_cache()
    made.before_step(1.0)
    assert made.stats()["kept"] == 0
    check_list(pool)


def test_expired_cold_blocks_are_dropped_ahead_of_need_down_to_the_threshold_and_hot_ones_stay(
    cache: tuple[HotCache, Any, Any],
) -> None:
    made, scheduler, pool = cache
    made.apply(HotSettings(ratio=0.5, cold_ttl_s=5, reclaim_threshold=0.5), 0.0)
    hot, cold = _cached(pool, 5), _cached(pool, 45, first=100)
    numbers = [block.block_id for block in hot]
    _hit(made, scheduler, "a", numbers)
    pool.free_blocks(hot)
    pool.free_blocks(cold)
    made.before_step(4.0)
    assert made.stats()["reclaimed"] == 0
    made.before_step(6.0)
    assert made.stats()["reclaimed"] == 50 - 29
    assert all(pool.blocks[number].block_hash is not None for number in numbers)
    assert all(block.block_hash is None for block in cold[:21])
    assert set(forward(pool)[:21]) == {block.block_id for block in cold[:21]}
    made.before_step(7.0)
    assert made.stats()["reclaimed"] == 21
    check_list(pool)


def test_a_queue_or_pool_this_plugin_does_not_know_is_left_alone_with_a_reason() -> None:
    pool = new_pool()
    assert pools.tier_support(_scheduler(pool)).level == "native"
    pool.enable_caching = False
    assert "prefix caching is off" in str(pools.tier_support(_scheduler(pool)).reason)
    pool.enable_caching = True
    stock = type(pool.free_block_queue)
    pool.free_block_queue.__class__ = type("Other", (stock,), {})
    support = pools.tier_support(_scheduler(pool))
    assert support.off
    assert "Other" in str(support.reason)
    with pytest.raises(ValueError, match="cannot use two cache tiers"):
        HotCache(_scheduler(pool), 1).apply(HotSettings(ratio=0.3), 0.0)
    assert pools.tier_support(SimpleNamespace()).off


def test_a_method_the_plugin_does_not_know_switches_the_tiers_off(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = new_pool()
    monkeypatch.setattr(type(pool.free_block_queue), "shuffle", lambda self: None, raising=False)
    support = pools.tier_support(_scheduler(pool))
    assert support.off
    assert "shuffle" in str(support.reason)


def test_groups_whose_lookups_cannot_be_followed_limit_the_tiers_to_a_fixed_share() -> None:
    pool = new_pool()
    scheduler = _scheduler(pool)
    scheduler.kv_cache_manager.coordinator.single_type_managers[0].block_size = 32
    support = pools.tier_support(scheduler)
    assert support.level == "limited"
    assert "as set" in str(support.reason)


# -- under a real engine

SMALL: dict[str, Any] = {"num_blocks": 60, "max_num_batched_tokens": 128, "max_model_len": 512, "max_num_seqs": 12}


@pytest.mark.parametrize("async_scheduling", [False, True], ids=["sync", "async"])
def test_every_request_gets_its_own_tokens_while_the_tiers_are_switched(async_scheduling: bool) -> None:
    source = random.Random(7)
    hot = [[source.randrange(8, 500) for _ in range(96)] for _ in range(3)]
    with InProcessEngine(EngineSettings(async_scheduling=async_scheduling, **SMALL)) as engine:
        made = with_tiers(engine, ratio=0.4, hot_ttl_s=30)
        asked: dict[str, int] = {}
        answers: dict[str, list[int]] = {}
        was_on: set[bool] = set()
        for number in range(600):
            prompt = source.choice(hot)[: source.choice((48, 96))] + [source.randrange(8, 500) for _ in range(20)]
            asked[f"r{number}"] = source.randint(1, 30)
            engine.add_request(f"r{number}", prompt, asked[f"r{number}"])
            if number % 7 == 0:
                threshold = source.choice((0.3, 1.0))
                ratio = source.choice((0.0, 0.0, 0.1, 0.5, 0.9))
                wanted = HotSettings(ratio=ratio, hot_ttl_s=20, cold_ttl_s=0.5, reclaim_threshold=threshold)
                made.apply(wanted, engine.clock.now_s())
                was_on.add(made.on)
            if number % 50 == 49:
                engine.abort(f"r{number}")
                del asked[f"r{number}"]
                answers.pop(f"r{number}", None)
            for _ in range(source.randint(0, 6)):
                for request_id, tokens in engine.step().items():
                    answers.setdefault(request_id, []).extend(tokens)
        for request_id, tokens in engine.run_until_idle().items():
            answers.setdefault(request_id, []).extend(tokens)
        assert was_on == {True, False}
        assert {name: answers[name] for name in asked} == {name: engine.expected(name, n) for name, n in asked.items()}
        pool = engine.scheduler.kv_cache_manager.block_pool
        made.off()
        check_list(pool)
        assert pool.get_num_free_blocks() == SMALL["num_blocks"] - 1


def test_two_tiers_find_more_of_a_hot_set_in_a_scan_than_lru_does() -> None:
    from bench.hotcold import live
    from bench.hotcold.loads import LOADS

    stock = live.run(LOADS[0], 300, 5)
    tiered = live.run(LOADS[0], 300, 5, lambda engine: with_tiers(engine, ratio=0.4))
    assert (stock.wrong_answers, tiered.wrong_answers) == (0, 0)
    assert tiered.hit_rate > 1.15 * stock.hit_rate


def test_the_memory_of_what_left_keeps_its_bound_however_large_an_allocation_is() -> None:
    share = Share()
    share.bound(limit=10, floor=0)
    for call in range(50):
        added = 3 * FORGETS_PER_CALL
        for number in range(added):
            share.memory[call, number] = number
        share.forget_old(added)
    assert len(share.memory) == share.remembers == 20
