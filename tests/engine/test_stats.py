"""The statistics of a real vLLM engine core: each figure against a count of its own; collecting never hurts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm")

from vllm_governor_engine.core import Governor
from vllm_governor_engine.stats import fragmentation
from vllm_governor_engine.stats.pool import pool_bytes

from bench.emulated_gpu.settings import EmulatedGpu
from bench.emulated_gpu.step_model import StepModel

Drive = Callable[..., Any]
SYNC_AND_ASYNC = pytest.mark.parametrize("async_scheduling", [False, True], ids=["sync", "async"])
NOON = 1.7e9
"""The time of the day at which a test's clock stands at 0."""


def _on_virtual_time(driven: Any) -> None:
    """A governor that lives on the emulated GPU's clock, as the whole test then does."""
    clock = driven.engine.clock
    driven.governor = Governor(driven.scheduler, driven.core.vllm_config, clock=clock.now_s)
    driven.governor.stats._wall = lambda: NOON + clock.now_s()
    driven.core._vllm_governor = driven.governor


def _add(driven: Any, name: str, prompt: Any, max_tokens: int) -> None:
    """A request that arrives now, on the test's clock."""
    driven.engine.add_request(name, prompt, max_tokens)
    driven.scheduler.requests[name].arrival_time = NOON + driven.engine.clock.now_s()


def _stats(driven: Any, since: int = 0, **more: Any) -> dict[str, Any]:
    return dict(driven.call("stats", since={"*": since}, **more))


def _rows(stats: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(stats["records"]["fields"], row, strict=True)) for row in stats["records"]["rows"]]


# --- nothing before the first reading ---


def test_nothing_is_hooked_before_the_first_reading_and_all_of_it_goes_when_it_is_stopped(drive: Drive) -> None:
    driven = drive()
    pool = driven.scheduler.kv_cache_manager.block_pool
    before = dict(vars(driven.scheduler)), dict(vars(pool))
    driven.read()
    assert (vars(driven.scheduler), vars(pool)) == before
    _stats(driven)
    assert {"schedule", "update_from_output"} <= set(vars(driven.scheduler))
    assert pool.metrics_collector is not None
    driven.governor.stats.stop("the test is over")
    assert (vars(driven.scheduler), vars(pool)) == before
    assert _stats(driven)["steps"] is None
    assert (vars(driven.scheduler), vars(pool)) == before


def test_before_anything_has_run_what_is_not_known_is_null(drive: Drive) -> None:
    stats = _stats(drive())
    assert stats["kv"]["ratio"] is None
    assert stats["requests"]["prompts"] is None
    assert stats["queue"] == {"running": 0, "waiting": 0, "oldest_waiting_s": None}
    assert stats["padding"] is None
    assert stats["allocator"] is None
    assert stats["tiers"] is None
    assert stats["records"]["rows"] == []
    assert (stats["records"]["first"], stats["records"]["next"]) == (1, 0)


def test_without_prefix_caching_hits_are_not_known(drive: Drive) -> None:
    driven = drive(prefix_caching=False)
    _stats(driven)
    driven.add(5)
    driven.engine.run_until_idle()
    assert _stats(driven)["requests"]["cache"] is None
    assert _stats(driven)["requests"]["admitted"] == 5


# --- fragmentation ---


def _brute_force(scheduler: Any) -> tuple[int, int]:
    """Empty and allocated slots, looking at every slot of every block in use: written is what some request computed."""
    (manager,) = scheduler.kv_cache_manager.coordinator.single_type_managers
    written: dict[int, set[int]] = {}
    for name, blocks in manager.req_to_blocks.items():
        for place, block in enumerate(blocks):
            slots = written.setdefault(block.block_id, set())
            begin = place * manager.block_size
            slots |= {
                slot
                for slot in range(manager.block_size)
                if begin + slot < scheduler.requests[name].num_computed_tokens
            }
    used = {
        block.block_id
        for block in scheduler.kv_cache_manager.block_pool.blocks
        if block.ref_cnt > 0 and not block.is_null
    }
    allocated = len(used) * manager.block_size
    return allocated - sum(len(written.get(number, ())) for number in used), allocated


@SYNC_AND_ASYNC
def test_fragmentation_is_what_a_look_at_every_slot_finds_with_shared_prefixes_too(
    drive: Drive, async_scheduling: bool
) -> None:
    driven = drive(
        async_scheduling=async_scheduling, max_model_len=512, num_blocks=70, max_num_seqs=24, max_num_batched_tokens=256
    )
    shared = list(range(1, 165))
    for number in range(60):
        prompt = [*shared, *range(200, 200 + number % 37)] if number % 3 else range(100 + number, 130 + number)
        driven.engine.add_request(f"r{number}", prompt, 5 + number % 40)
    seen = []
    while driven.engine.busy:
        driven.engine.step()
        wasted, allocated = _brute_force(driven.scheduler)
        kv = _stats(driven)["kv"]
        assert (kv["wasted_slots"], kv["allocated_slots"]) == (wasted, allocated)
        assert 0 <= wasted <= allocated
        if allocated:
            assert kv["ratio"] == pytest.approx(wasted / allocated, abs=1e-6)
            seen.append(kv["ratio"])
    assert driven.scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == 69
    assert max(seen) > 0.05  # there was something to measure
    assert _stats(driven)["requests"]["preemptions"] > 0  # and blocks were taken away in between


def test_managers_that_share_a_pool_are_counted_block_by_block_and_unknown_ones_not_at_all() -> None:
    def block(number: int, null: bool = False) -> Any:
        return SimpleNamespace(block_id=number, is_null=null)

    pool = SimpleNamespace(num_gpu_blocks=100, get_num_free_blocks=lambda: 80)
    kinds = [
        type(name, (SimpleNamespace,), {}) for name in ("FullAttentionManager", "SlidingWindowManager", "MambaManager")
    ]
    tables: list[dict[str, Any]] = [
        {"a": [block(1), block(2), block(3)], "b": [block(1), block(4)]},
        {"a": [block(0, null=True), block(5)], "gone": [block(6)]},
        {"a": [block(7)]},
    ]
    managers = [
        kind(block_size=size, block_pool=pool, req_to_blocks=table)
        for kind, size, table in zip(kinds, (16, 32, 64), tables, strict=True)
    ]
    requests = {"a": SimpleNamespace(num_computed_tokens=40), "b": SimpleNamespace(num_computed_tokens=32)}
    coordinator = SimpleNamespace(single_type_managers=managers)
    measured = fragmentation.measure(
        SimpleNamespace(requests=requests, kv_cache_manager=SimpleNamespace(coordinator=coordinator))
    )
    full, window, mamba = measured["managers"]
    assert (full["wasted_slots"], full["allocated_slots"]) == (8, 64)
    assert (window["wasted_slots"], window["allocated_slots"]) == (24, 64)
    assert (mamba["wasted_slots"], mamba["allocated_slots"], mamba["ratio"]) == (None, None, None)
    assert (measured["wasted_slots"], measured["allocated_slots"], measured["ratio"]) == (32, 128, 0.25)


def test_the_pools_bytes_are_those_of_what_the_workers_allocate(drive: Drive) -> None:
    driven = drive(num_blocks=200)
    (group,) = driven.scheduler.kv_cache_config.kv_cache_groups
    layers, page = len(group.layer_names), group.kv_cache_spec.page_size_bytes
    assert _stats(driven)["kv"]["pool_bytes"] == 200 * layers * page
    assert _stats(drive(num_blocks=150))["kv"]["pool_bytes"] == 150 * layers * page


def _planned(*tensors: dict[str, Any], blocks: int = 10) -> int | None:
    config = SimpleNamespace(kv_cache_tensors=[SimpleNamespace(**one) for one in tensors], kv_cache_groups=[])
    manager = SimpleNamespace(block_pool=SimpleNamespace(num_gpu_blocks=blocks))
    return pool_bytes(SimpleNamespace(kv_cache_config=config, kv_cache_manager=manager))


def test_the_pools_bytes_count_shared_memory_once_in_every_vllms_plan_of_the_cache() -> None:
    assert _planned({"size": 100, "shared_by": ["a"]}, {"size": 60, "shared_by": ["b", "c"]}) == 160
    packed = {"size": 100, "shared_by": ["a"], "block_stride": 16}
    assert _planned({**packed, "offset": 0}, {**packed, "offset": 10}) == 160
    placed = {"size": 200, "layer_stride": 10, "block_stride": 20, "layers": ["a"]}
    on_the_host = {"size": 900, "layer_stride": 10, "block_stride": 20, "host_resident": True}
    assert _planned(placed, {**placed, "offset": 10}, on_the_host) == 200


def test_the_pools_bytes_are_null_where_vllm_does_not_say() -> None:
    assert _planned() is None
    assert pool_bytes(SimpleNamespace(kv_cache_manager=None)) is None


# --- evictions, preemptions, hits ---


@pytest.mark.parametrize("with_collector", [False, True], ids=["plain", "chained"])
@SYNC_AND_ASYNC
def test_evictions_are_those_that_somebody_needed_and_our_own_are_told_apart(
    drive: Drive, async_scheduling: bool, with_collector: bool
) -> None:
    driven = drive(async_scheduling=async_scheduling, max_model_len=512, num_blocks=100, max_num_seqs=16)
    scheduler = driven.scheduler
    pool = scheduler.kv_cache_manager.block_pool
    told: list[str] = []
    if with_collector:
        names = ("on_block_allocated", "on_block_accessed", "on_block_evicted")
        pool.metrics_collector = SimpleNamespace(
            **{name: lambda block, name=name: told.append(name) for name in names}, reset=lambda: None
        )
    _stats(driven)
    counts = {"needed": 0, "dropped": 0, "preempted": 0}
    inside: list[str] = ["needed"]
    evict, preempt = pool._maybe_evict_cached_block, scheduler._preempt_request

    def evicting(block: Any) -> bool:
        done = bool(evict(block))
        counts[inside[-1]] += done
        return done

    def preempting(*args: Any, **kwargs: Any) -> None:
        counts["preempted"] += 1
        preempt(*args, **kwargs)

    pool._maybe_evict_cached_block, scheduler._preempt_request = evicting, preempting
    for number in range(80):
        driven.engine.add_request(f"r{number}", [number * 5 + place for place in range(1, 70)], 90)
    steps = 0
    while driven.engine.busy:
        driven.engine.step()
        steps += 1
        if steps % 10 == 0:
            inside.append("dropped")
            free = [block.block_id for block in pool.blocks if block.ref_cnt == 0][:20]
            pool.evict_blocks(set(free))
            inside.pop()
    stats = _stats(driven)
    assert min(counts.values()) > 0
    assert stats["blocks"] == {
        "evictions": counts["needed"],
        "dropped": counts["dropped"],
        "reallocations": counts["needed"] + counts["preempted"],
    }
    assert stats["requests"]["preemptions"] == counts["preempted"]
    if with_collector:
        assert set(told) == {"on_block_allocated", "on_block_accessed", "on_block_evicted"}


def test_a_purge_of_ours_is_no_eviction(drive: Drive) -> None:
    driven = drive()
    _stats(driven)
    driven.add(20, prompt_tokens=100)
    driven.engine.run_until_idle()
    driven.call("purge", expect={driven.governor.boot_id: None}, ratio=1.0, preempt=0)
    driven.add(1, name="after")
    driven.engine.run_until_idle()
    blocks = _stats(driven)["blocks"]
    assert blocks["dropped"] > 0
    assert (blocks["evictions"], blocks["reallocations"]) == (0, 0)


@SYNC_AND_ASYNC
def test_a_request_is_hot_when_it_hits_and_is_counted_once_however_often_it_is_preempted(
    drive: Drive, async_scheduling: bool
) -> None:
    driven = drive(async_scheduling=async_scheduling, max_model_len=512, num_blocks=40, max_num_seqs=12)
    _stats(driven)
    shared = list(range(1, 100))
    driven.engine.add_request("first", shared, 3)
    driven.engine.run_until_idle()
    for number in range(30):
        driven.engine.add_request(f"h{number}", [*shared, 300 + number], 40)
        driven.engine.add_request(f"c{number}", [5 + number, *range(1, 60)], 40)
    driven.engine.run_until_idle()
    stats = _stats(driven)
    rows = _rows(stats)
    assert sum(row["preemptions"] for row in rows) == stats["requests"]["preemptions"] > 0
    cache = stats["requests"]["cache"]
    assert cache["hot_requests"] + cache["cold_requests"] == stats["requests"]["admitted"] == len(rows) == 61
    assert cache["hot_requests"] == sum(row["hit_tokens"] > 0 for row in rows) > 0
    assert cache["hit_tokens"] == sum(row["hit_tokens"] for row in rows)
    assert cache["prompt_tokens"] == 99 + 30 * 100 + 30 * 60
    assert {row["hit_tokens"] for row in rows if row["prompt_tokens"] == 60} == {0}
    assert {row["hit_tokens"] for row in rows if row["prompt_tokens"] == 100} <= {0, 96}
    assert cache["external_hit_tokens"] == 0


def test_the_prompt_spread_is_of_the_lengths_at_admission(drive: Drive) -> None:
    driven = drive(max_num_seqs=4)
    _stats(driven)
    for number in range(1, 102):
        driven.engine.add_request(f"r{number}", range(1, number + 1), 1)
    driven.engine.run_until_idle()
    assert _stats(driven)["requests"]["prompts"] == {"n": 101, "p10": 11, "p50": 51, "p90": 91}


# --- steps ---


def _solve(sums: dict[str, Any]) -> list[float]:
    """Least squares of seconds ~ a + b * tokens + c * context from the sums alone, by Cramer's rule."""
    n, t, c = sums["n"], sums["tokens"], sums["context"]
    rows = [
        [n, t, c, sums["seconds"]],
        [t, sums["tokens_tokens"], sums["tokens_context"], sums["tokens_seconds"]],
        [c, sums["tokens_context"], sums["context_context"], sums["context_seconds"]],
    ]

    def det(columns: tuple[int, int, int]) -> float:
        (a, b, d), (e, f, g), (h, i, j) = ([float(row[column]) for column in columns] for row in rows)
        return a * (f * j - g * i) - b * (e * j - g * h) + d * (e * i - f * h)

    return [det(columns) / det((0, 1, 2)) for columns in ((3, 1, 2), (0, 3, 2), (0, 1, 3))]


@SYNC_AND_ASYNC
def test_the_sums_recover_the_devices_step_model(drive: Drive, async_scheduling: bool) -> None:
    model = StepModel(base_ms=18.0, per_token_us=90.0, per_context_token_ns=60.0)
    driven = drive(async_scheduling=async_scheduling, max_num_seqs=48, gpu=EmulatedGpu(step=model))
    _on_virtual_time(driven)
    _stats(driven)
    for number in range(300):
        prompt = [number * 3 + place for place in range(1, 40 + number * 37 % 900)]
        _add(driven, f"r{number}", prompt, 10 + number % 60)
        for _ in range(number % 3):
            driven.engine.step()
    driven.engine.run_until_idle()
    sums = _stats(driven)["steps"]
    executor = driven.engine.executor
    assert sums["n"] == executor.steps
    assert sums["seconds"] == pytest.approx(executor.busy_s)
    base, per_token, per_context = _solve(sums)
    assert base == pytest.approx(18e-3, rel=0.03)
    assert per_token == pytest.approx(90e-6, rel=0.03)
    assert per_context == pytest.approx(60e-9, rel=0.03)


@SYNC_AND_ASYNC
def test_the_batch_sums_are_those_of_the_schedulers_outputs(drive: Drive, async_scheduling: bool) -> None:
    driven = drive(async_scheduling=async_scheduling, max_num_seqs=8, max_num_batched_tokens=256)
    _stats(driven)
    steps = driven.watch_steps()
    driven.add(40, prompt_tokens=100, max_tokens=10)
    for _ in range(10):
        driven.engine.step()
    driven.patch(max_num_batched_tokens=64)
    lowered_at = sum(bool(step.total_num_scheduled_tokens) for step in steps)
    driven.engine.run_until_idle()
    sums = _stats(driven)["steps"]
    full = [step.total_num_scheduled_tokens for step in steps if step.total_num_scheduled_tokens]
    assert sums["n"] == len(full)
    assert sums["tokens"] == sum(full)
    assert sums["budget_tokens"] == 256 * lowered_at + 64 * (len(full) - lowered_at)
    assert sums["empty"] == len(steps) - len(full)
    assert sums["samples"] == -(-len(full) // 8)
    assert 0 < sums["running"] <= 8 * sums["samples"]
    assert sums["waiting"] > 0


def test_idle_time_is_in_no_step_and_time_between_two_steps_is_summed_apart(drive: Drive) -> None:
    driven = drive(gpu=EmulatedGpu(step=StepModel(base_ms=10.0, per_token_us=0.0, per_context_token_ns=0.0)))
    _on_virtual_time(driven)
    _stats(driven)
    for number in range(5):
        driven.engine.clock.advance(100.0)  # nothing to do
        _add(driven, f"r{number}", range(1, 9), 4)
        while driven.engine.busy:
            driven.engine.step()
            driven.engine.clock.advance(0.002)
    sums = _stats(driven)["steps"]
    assert sums["n"] == 20
    assert sums["seconds"] == pytest.approx(0.2)
    assert sums["between_seconds"] == pytest.approx(15 * 0.002)


def test_the_time_in_which_nobody_runs_because_the_last_one_was_aborted_is_idle(drive: Drive) -> None:
    driven = drive()
    _on_virtual_time(driven)
    _stats(driven)
    for number in range(3):
        _add(driven, f"r{number}", range(1, 9), 100)
        for _ in range(5):
            driven.engine.step()
        driven.engine.abort(f"r{number}")
        driven.engine.clock.advance(100.0)
    assert _stats(driven)["steps"]["n"] == 15
    assert _stats(driven)["steps"]["between_seconds"] == 0.0


# --- requests ---


@SYNC_AND_ASYNC
def test_a_record_tells_when_a_request_was_admitted_spoke_first_and_ended(drive: Drive, async_scheduling: bool) -> None:
    step = StepModel(base_ms=10.0, per_token_us=0.0, per_context_token_ns=0.0)
    driven = drive(async_scheduling=async_scheduling, max_num_seqs=1, gpu=EmulatedGpu(step=step))
    _on_virtual_time(driven)
    _stats(driven)
    _add(driven, "a", range(1, 21), 11)
    _add(driven, "b", range(1, 31), 6)
    _add(driven, "c", range(1, 31), 1)
    driven.engine.run_until_idle()
    a, b, c = _rows(_stats(driven))
    assert (a["prompt_tokens"], a["output_tokens"], a["reason"], a["preemptions"]) == (20, 11, "length", 0)
    assert (a["queue_s"], a["ttft_s"], a["e2e_s"], a["tpot_s"]) == pytest.approx((0.0, 0.01, 0.11, 0.01))
    assert a["finished_at"] == pytest.approx(NOON + 0.11, abs=1e-3)
    assert (b["queue_s"], b["ttft_s"], b["e2e_s"]) == pytest.approx((0.11, 0.12, 0.17))
    assert b["hit_tokens"] == 16
    assert c["tpot_s"] is None  # one token has no time between two


def test_no_first_token_comes_after_the_end_though_it_is_noticed_later(drive: Drive) -> None:
    driven = drive()
    looks = itertools.count()

    def now_s() -> float:
        return float(driven.engine.clock.now_s()) + next(looks) * 1e-3

    driven.governor = Governor(driven.scheduler, driven.core.vllm_config, clock=now_s)
    driven.governor.stats._wall = lambda: NOON + now_s()
    driven.core._vllm_governor = driven.governor
    _stats(driven)
    _add(driven, "a", range(1, 21), 1)
    driven.engine.run_until_idle()
    (row,) = _rows(_stats(driven))
    assert row["ttft_s"] == row["e2e_s"]


@SYNC_AND_ASYNC
def test_who_is_aborted_leaves_a_record_and_who_never_got_in_is_counted(drive: Drive, async_scheduling: bool) -> None:
    driven = drive(async_scheduling=async_scheduling, max_num_seqs=2)
    driven.add(1, max_tokens=100, name="before")
    driven.engine.step()
    _stats(driven)
    driven.add(4, max_tokens=100)
    for _ in range(5):
        driven.engine.step()
    driven.engine.abort("r0", "r3", "before0")  # running, waiting, and running since before the collection
    driven.engine.run_until_idle()
    stats = _stats(driven)
    assert [row["reason"] for row in _rows(stats)] == ["abort", "length", "length"]
    assert stats["requests"]["gave_up"] == 1
    collector = driven.governor.stats._requests
    assert not collector._open
    assert not collector.silent


def test_the_ring_is_bounded_and_the_cursor_says_what_was_lost(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vllm_governor_engine.stats.records.KEPT", 30)
    monkeypatch.setattr("vllm_governor_engine.stats.records.Records.__init__.__defaults__", (30,))
    monkeypatch.setattr("vllm_governor_engine.stats.collection.Stats.read.__defaults__", (None, 20))
    driven = drive()
    _stats(driven)
    for number in range(1, 101):
        driven.engine.add_request(f"r{number}", range(1, number + 1), 1)
        driven.engine.run_until_idle()
    records = _stats(driven)["records"]
    assert (records["first"], records["next"], records["more"]) == (71, 90, True)
    assert [row[2] for row in records["rows"]] == list(range(71, 91))
    rest = _stats(driven, since=records["next"])["records"]
    assert [row[2] for row in rest["rows"]] == list(range(91, 101))
    assert (rest["next"], rest["more"]) == (100, False)
    assert _stats(driven, since=100)["records"]["rows"] == []
    assert _stats(driven, since=100)["records"]["next"] == 100
    assert [row[2] for row in _stats(driven, since=95)["records"]["rows"]] == [96, 97, 98, 99, 100]
    # The cursor of another life of the engine: all there is.
    assert _stats(driven, since=5000)["records"]["next"] == 90
    by_name = driven.call("stats", since={driven.governor.boot_id: 98, "other": 3})
    assert [row[2] for row in by_name["records"]["rows"]] == [99, 100]


def test_the_oldest_waiting_request_is_the_one_without_a_token_that_does_not_run(drive: Drive) -> None:
    driven = drive(max_num_seqs=1)
    _on_virtual_time(driven)
    _add(driven, "runs", range(1, 9), 500)
    driven.engine.step()
    assert _stats(driven)["queue"] == {"running": 1, "waiting": 0, "oldest_waiting_s": None}
    at = driven.engine.clock.now_s()
    _add(driven, "old", range(1, 9), 5)
    driven.engine.clock.advance(30.0)
    _add(driven, "young", range(1, 9), 5)
    queue = _stats(driven)["queue"]
    assert (queue["running"], queue["waiting"]) == (1, 2)
    assert queue["oldest_waiting_s"] == pytest.approx(driven.engine.clock.now_s() - at)


# --- what fails, fails alone ---


@SYNC_AND_ASYNC
@pytest.mark.parametrize(
    ("name", "hook"),
    [("steps", "read"), ("steps", "fold"), ("requests", "changed"), ("requests", "spoke"),
     ("requests", "read"), ("evictions", "read"), ("padding", "read")],
)  # fmt: skip
def test_a_collector_that_raises_is_taken_out_and_reported_and_serving_goes_on(
    drive: Drive, async_scheduling: bool, name: str, hook: str
) -> None:
    driven = drive(async_scheduling=async_scheduling, max_num_seqs=8, max_model_len=512, num_blocks=64)

    def broken(*args: Any) -> None:
        raise RuntimeError("not today")

    collections = "vllm_governor_engine.stats.collection"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{collections}.{name.capitalize()}.{hook}", broken)
        _stats(driven)
        driven.add(40, prompt_tokens=40)
        driven.engine.run_until_idle()
        stats = _stats(driven)
    assert len(driven.engine.finish_reasons) == 40
    reported = [entry["part"] for entry in driven.read()["degraded"]]
    assert reported == [f"stats.{name}"]
    assert stats[{"evictions": "blocks"}.get(name, name)] is None
    kept = {"steps", "requests", "evictions"} - {name}
    assert all(stats[{"evictions": "blocks"}.get(other, other)] is not None for other in kept)
    assert driven.read()["knobs"]["max_num_seqs"]["support"] != "off"


@SYNC_AND_ASYNC
@pytest.mark.parametrize("seen", [SimpleNamespace(), SimpleNamespace(max_num_scheduled_tokens=2048)])
def test_a_journal_that_raises_at_a_step_takes_the_steps_out_and_serving_goes_on(
    drive: Drive, async_scheduling: bool, seen: SimpleNamespace
) -> None:
    """Without the budget it raises at every batch, without `running` at the first that only decodes."""
    driven = drive(async_scheduling=async_scheduling, max_num_seqs=8, max_model_len=512, num_blocks=64)
    _stats(driven)
    driven.governor.stats._journal._scheduler = seen
    driven.add(40, prompt_tokens=40)
    driven.engine.run_until_idle()
    stats = _stats(driven)
    assert len(driven.engine.finish_reasons) == 40
    assert [entry["part"] for entry in driven.read()["degraded"]] == ["stats.steps"]
    assert stats["steps"] is None
    assert stats["requests"] is not None


def test_when_the_part_of_the_hook_itself_fails_all_statistics_go_and_serving_goes_on(drive: Drive) -> None:
    driven = drive()
    _stats(driven)

    def broken(output: Any) -> None:
        raise RuntimeError("not today")

    driven.governor.engine.hook.add("stats", after=broken)
    driven.add(5)
    driven.engine.run_until_idle()
    assert len(driven.engine.finish_reasons) == 5
    stats = _stats(driven)
    assert [entry["part"] for entry in stats["degraded"]] == ["stats"]
    assert stats["steps"] is None
    assert "update_from_output" not in vars(driven.scheduler)


def test_a_counter_inside_vllms_own_code_never_raises(drive: Drive) -> None:
    driven = drive(max_model_len=512, num_blocks=64)
    _stats(driven)
    pool = driven.scheduler.kv_cache_manager.block_pool
    pool.metrics_collector.on_block_evicted(object())
    stats = _stats(driven)
    assert stats["blocks"] is None
    assert [entry["part"] for entry in stats["degraded"]] == ["stats.evictions"]
    assert pool.metrics_collector is None


def test_a_scheduler_that_cannot_be_followed_costs_the_statistics_and_nothing_else(drive: Drive) -> None:
    driven = drive()
    kind = type(driven.scheduler)
    refusing = property(lambda self: lambda *args: kind.update_from_output(self, *args))
    driven.scheduler.__class__ = type("Refusing", (kind,), {"update_from_output": refusing})
    stats = _stats(driven)
    assert stats["steps"] is None
    assert stats["requests"] is None
    assert stats["kv"] is not None
    assert [entry["part"] for entry in stats["degraded"]] == ["stats"]
    driven.add(5)
    driven.engine.run_until_idle()
    assert len(driven.engine.finish_reasons) == 5


def test_a_measure_that_fails_is_null_and_reported_once(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = drive()
    calls = []

    def broken(scheduler: Any) -> dict[str, Any]:
        calls.append(scheduler)
        raise RuntimeError(f"no {len(calls)}")

    monkeypatch.setattr(fragmentation, "measure", broken)
    for _ in range(3):
        stats = _stats(driven)
        assert stats["kv"] is None
    assert len(calls) == 1
    assert [entry["part"] for entry in stats["degraded"]] == ["stats.kv"]


# --- the reply, workers, padding ---


def _plain(value: Any) -> bool:
    if type(value) is dict:
        return all(type(key) is str and _plain(one) for key, one in value.items())
    if type(value) is list:
        return all(map(_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def test_the_reply_is_plain_whatever_vllm_counts_with(drive: Drive) -> None:
    numpy = pytest.importorskip("numpy")
    driven = drive(max_num_seqs=8, extra={"cudagraph_metrics": True})
    schedule = driven.scheduler.schedule

    def numpied(*args: Any) -> Any:
        output = schedule(*args)
        output.total_num_scheduled_tokens = numpy.int64(output.total_num_scheduled_tokens)
        cached = output.scheduled_cached_reqs
        cached.num_computed_tokens = [numpy.int64(one) for one in cached.num_computed_tokens]
        for request in driven.scheduler.requests.values():
            request.num_prompt_tokens = numpy.int64(request.num_prompt_tokens)
            request.arrival_time = numpy.float64(request.arrival_time)
            request.num_preemptions = numpy.int32(request.num_preemptions)
        return output

    driven.scheduler.schedule = numpied
    _stats(driven)  # the statistics' wrapper is around it
    driven.scheduler.max_num_scheduled_tokens = numpy.int64(2048)
    driven.add(30, prompt_tokens=40)
    for _ in range(30):
        driven.engine.step()
        stats = _stats(driven)
        assert _plain(stats)
    assert stats["degraded"] == []
    assert stats["steps"]["n"] > 0


@pytest.mark.parametrize("how", ["unknown", "nothing", "confused", "known"])
def test_workers_are_asked_on_request_only_and_no_more_than_every_ten_seconds(drive: Drive, how: str) -> None:
    driven = drive()
    asked: list[str] = []
    good = {"reserved_bytes": 100, "allocated_bytes": 70, "inactive_split_bytes": 20}

    def collective_rpc(method: str) -> list[Any]:
        asked.append(method)
        if how == "unknown":
            raise NotImplementedError("Method 'governor_allocator' is not implemented.")
        answers: dict[str, list[Any]] = {
            "nothing": [None, None],
            "confused": [7, {"reserved_bytes": 1}],
            "known": [good, None],
        }
        return answers[how]

    driven.core.collective_rpc = collective_rpc
    assert _stats(driven, allocator=True)["allocator"] is None
    assert asked == []  # a CPU has no such allocator
    driven.governor.stats._allocator._there = True
    assert _stats(driven)["allocator"] is None
    assert asked == []
    first = _stats(driven, allocator=True)["allocator"]
    assert first == ({"age_s": 0.0, "workers": [good, None]} if how == "known" else None)
    driven.clock.now += 9.5
    again = _stats(driven, allocator=True)["allocator"]
    assert asked == ["governor_allocator"]
    assert again == ({"age_s": 9.5, "workers": [good, None]} if how == "known" else None)
    driven.clock.now += 0.5
    _stats(driven, allocator=True)
    assert len(asked) == 2


def test_every_worker_has_the_method_and_without_a_gpu_it_answers_none(drive: Drive) -> None:
    from vllm.v1.worker.worker_base import WorkerBase

    drive()
    assert WorkerBase.governor_allocator(object()) is None


def test_padding_is_summed_where_vllm_reports_it(drive: Drive) -> None:
    driven = drive(extra={"cudagraph_metrics": True})
    _stats(driven)
    inner = driven.governor.stats._journal.around(lambda *_: None)
    padded = SimpleNamespace(cudagraph_stats=SimpleNamespace(num_unpadded_tokens=5, num_padded_tokens=8))
    inner(SimpleNamespace(total_num_scheduled_tokens=0), padded)
    inner(SimpleNamespace(total_num_scheduled_tokens=0), SimpleNamespace(cudagraph_stats=None))
    inner(SimpleNamespace(total_num_scheduled_tokens=0), padded)
    assert _stats(driven)["padding"] == {"steps": 2, "real_tokens": 10, "padded_tokens": 16}
    assert json.dumps(_stats(driven))


def test_a_window_and_tiers_that_are_on_are_in_the_document(drive: Drive) -> None:
    driven = drive()
    driven.patch(hot_cache_ratio=0.4)
    stats = _stats(driven)
    assert stats["window"] == {"held": 0, "windows": 0, "regroupings": 0}
    assert stats["tiers"]["limit"] > 0
