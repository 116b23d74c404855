"""The knobs of the two-tier cache through the governor: their effect, their bounds, and the way back.

Here: `hot_cache_ratio` and its kin, set by calls on a live engine core. Never here: the order of blocks (test_tiers).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("vllm")

from vllm_governor_engine.errors import GovernorError

Drive = Callable[..., Any]
SYNC_AND_ASYNC = pytest.mark.parametrize("async_scheduling", [False, True], ids=["sync", "async"])
HOT_KNOBS = ("hot_cache_ratio", "hot_cache_min_size_mb", "hot_ttl_s", "cold_ttl_s", "cold_cache_reclaim_threshold")
SMALL: dict[str, Any] = {"num_blocks": 401, "max_num_seqs": 8, "max_num_batched_tokens": 4096, "max_model_len": 1024}


def _hit_rate(driven: Any, name: str, requests: int = 700) -> float:
    """Share of prompt tokens found in the cache: 35 % of the prompts are one of a few, the others never come again."""
    source = random.Random(3)
    hot = [[source.randrange(500) for _ in range(512)] for _ in range(5)]
    steps, asked = driven.watch_steps(), 0
    for number in range(requests):
        again = source.random() < 0.35
        prompt = source.choice(hot) if again else [source.randrange(500) for _ in range(512)]
        driven.engine.add_request(f"{name}{number}", prompt, 2)
        asked += len(prompt)
        if number % 4 == 3:
            driven.engine.run_until_idle()
    driven.engine.run_until_idle()
    hits = sum(new.num_computed_tokens for step in steps for new in step.scheduled_new_reqs)
    return float(hits / asked)


@SYNC_AND_ASYNC
def test_the_ratio_raises_the_hit_rate_of_a_hot_set_among_a_scan(drive: Drive, async_scheduling: bool) -> None:
    stock = _hit_rate(drive(async_scheduling=async_scheduling, **SMALL), "s")
    driven = drive(async_scheduling=async_scheduling, **SMALL)
    driven.patch(hot_cache_ratio=0.4)
    tiered = _hit_rate(driven, "t")
    print(f"hit rate: LRU {stock:.3f}, two tiers at 0.4 {tiered:.3f}")
    assert tiered > 1.2 * stock
    assert tiered > 0.30  # 35 % is all there is


def test_the_tiers_can_be_taken_away_and_leave_the_stock_queue(drive: Drive) -> None:
    driven = drive(**SMALL)
    queue = driven.scheduler.kv_cache_manager.block_pool.free_block_queue
    stock = type(queue)
    driven.patch(hot_cache_ratio=0.4)
    assert type(queue) is not stock
    assert set(driven.governor.engine.hook.parts) == {"lease", "hot_cache_ratio"}
    _hit_rate(driven, "a", 100)
    driven.patch(hot_cache_ratio=0.0)
    assert type(queue) is stock
    assert driven.governor.engine.hook.parts == ("lease",)
    _hit_rate(driven, "b", 100)


def test_a_lease_that_runs_out_takes_the_tiers_away(drive: Drive) -> None:
    driven = drive(**SMALL)
    queue = driven.scheduler.kv_cache_manager.block_pool.free_block_queue
    stock = type(queue)
    driven.patch(
        lease_s=5,
        hot_cache_ratio=0.3,
        hot_cache_min_size_mb=1,
        hot_ttl_s=60,
        cold_ttl_s=5,
        cold_cache_reclaim_threshold=0.8,
    )
    driven.clock.now += 6
    knobs = driven.read()["knobs"]
    assert [knobs[name]["value"] for name in HOT_KNOBS] == [0.0, 0.0, 900.0, 120.0, 1.0]
    assert type(queue) is stock


def test_expired_cold_blocks_are_dropped_above_the_threshold_and_below_it_stay(drive: Drive) -> None:
    driven = drive(**SMALL)
    driven.patch(cold_ttl_s=10, cold_cache_reclaim_threshold=0.5, lease_s=3600)
    pool = driven.scheduler.kv_cache_manager.block_pool
    for number in range(12):
        driven.engine.add_request(f"r{number}", [number] * 480, 1)
    driven.engine.run_until_idle()
    full = len(pool.cached_block_hash_to_block)
    assert full > 300
    driven.clock.now += 60
    driven.engine.add_request("tick", [400] * 8, 20)
    while driven.engine.busy:
        driven.engine.step()
        driven.clock.now += 0.2
    assert len(pool.cached_block_hash_to_block) <= 200 + 1
    assert len(pool.cached_block_hash_to_block) >= 190


def test_bounds_and_types_of_the_five(drive: Drive) -> None:
    driven = drive(**SMALL)
    bounds = {name: (knob["min"], knob["max"]) for name, knob in driven.read()["knobs"].items() if name in HOT_KNOBS}
    assert bounds == {
        "hot_cache_ratio": (0.0, 0.9),
        "hot_cache_min_size_mb": (0.0, 2.0**20),
        "hot_ttl_s": (1.0, 86400.0),
        "cold_ttl_s": (1.0, 86400.0),
        "cold_cache_reclaim_threshold": (0.0, 1.0),
    }
    for name, given in (("hot_cache_ratio", 0.91), ("hot_ttl_s", 0), ("cold_cache_reclaim_threshold", 1.01)):
        with pytest.raises(GovernorError) as caught:
            driven.patch(**{name: given})
        assert (caught.value.code, caught.value.where["knob"]) == ("out_of_bounds", name)
    for wrong in (True, "0.3", None):
        with pytest.raises(GovernorError) as caught:
            driven.patch(hot_cache_ratio=wrong)
        assert caught.value.code == "wrong_type"
    assert driven.patch(hot_cache_ratio=0)["generation"] == 0  # 0 is 0.0: nothing moved


def test_a_minimum_larger_than_the_pool_counts_as_all_the_ratio_gives(drive: Drive) -> None:
    driven = drive(**SMALL)
    driven.patch(hot_cache_ratio=0.25, hot_cache_min_size_mb=2048)
    cache = driven.governor.engine.share(_tier()).cache
    assert cache.floor_blocks == cache.limit_blocks == 100


def _tier() -> Any:
    from vllm_governor_engine.hot_tier import HotTier

    return HotTier


def test_without_prefix_caching_the_five_are_off_with_the_reason(drive: Drive) -> None:
    knobs = drive(prefix_caching=False, **SMALL).read()["knobs"]
    for name in HOT_KNOBS:
        assert knobs[name]["support"] == "off"
        assert "prefix caching is off" in knobs[name]["reason"]


@pytest.mark.parametrize("half", ["before_step", "after_step"])
def test_a_cache_that_fails_gives_vllm_its_queue_back_and_serving_goes_on(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, half: str
) -> None:
    driven = drive(**SMALL)
    queue = driven.scheduler.kv_cache_manager.block_pool.free_block_queue
    stock = type(queue)
    cache = driven.governor.engine.share(_tier()).cache

    def broken(*_: Any) -> None:
        raise RuntimeError("no tiers today")

    monkeypatch.setattr(cache, half, broken)
    driven.patch(hot_cache_ratio=0.4)
    driven.add(30, prompt_tokens=60)
    assert len(driven.engine.run_until_idle()) == 30
    assert type(queue) is stock
    runtime = driven.read()
    assert {runtime["knobs"][name]["support"] for name in HOT_KNOBS} == {"off"}
    assert {entry["part"] for entry in runtime["degraded"]} == set(HOT_KNOBS)
    assert driven.governor.engine.hook.parts == ("lease",)
