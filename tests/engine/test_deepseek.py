"""The governor on a DeepSeek-style model: latent attention (MLA) and a mixture of experts, tiny.

Here: the knobs by their effect, exact answers, fragmentation, tiers and purge on such a model, once with MLA's cache on
the emulated GPU and once with vLLM really computing it on the CPU, where the vLLM at hand can. Never here: laws that
are the same for every model; the other tests hold those.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("vllm")

from vllm_governor_engine.errors import GovernorError

from bench.tiny_deepseek import CONFIG, tiny_deepseek

Drive = Callable[..., Any]
SYNC_AND_ASYNC = pytest.mark.parametrize("async_scheduling", [False, True], ids=["sync", "async"])
SMALL: dict[str, Any] = {"num_blocks": 401, "max_num_seqs": 8, "max_num_batched_tokens": 1024, "max_model_len": 1024}
LATENT_BYTES = 2 * (CONFIG["kv_lora_rank"] + CONFIG["qk_rope_head_dim"])
"""Of one token in one layer: a latent vector and the rotary part of the key, bfloat16, whatever the heads."""


@pytest.fixture(scope="module")
def deepseek(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The model's folder."""
    return str(tiny_deepseek(tmp_path_factory.mktemp("model") / "deepseek"))


def _supports(driven: Any) -> dict[str, str]:
    return {name: knob["support"] for name, knob in driven.read()["knobs"].items()}


# --- MLA's cache on the emulated GPU ---


def test_the_cache_is_latent_vectors_and_the_governor_counts_their_bytes(drive: Drive, deepseek: str) -> None:
    driven = drive(model=deepseek, **SMALL)
    kinds = {type(group.kv_cache_spec).__name__ for group in driven.scheduler.kv_cache_config.kv_cache_groups}
    assert kinds == {"MLAAttentionSpec"}
    driven.engine.add_request("a", range(160), 1)
    driven.engine.run_until_idle()
    driven.call("purge", expect={driven.governor.boot_id: None}, ratio=1.0, preempt=0)
    report = driven.read()["purge"]["last"]
    assert (report["blocks"], report["done"]) == (10, True)
    assert report["bytes"] == 10 * 16 * CONFIG["num_hidden_layers"] * LATENT_BYTES


def test_the_model_takes_nothing_away_from_the_knobs(drive: Drive, deepseek: str) -> None:
    assert _supports(drive(model=deepseek, **SMALL)) == _supports(drive(**SMALL))


@SYNC_AND_ASYNC
def test_cap_and_budget_bound_the_running_requests_and_the_tokens_of_a_step(
    drive: Drive, deepseek: str, async_scheduling: bool
) -> None:
    driven = drive(model=deepseek, async_scheduling=async_scheduling, **SMALL)
    driven.add(40, prompt_tokens=200, max_tokens=12)
    driven.patch(max_num_seqs=3, max_num_batched_tokens=64)
    steps, most = driven.watch_steps(), 0
    while driven.engine.busy:
        driven.engine.step()
        most = max(most, len(driven.scheduler.running))
    assert most == 3
    assert max(step.total_num_scheduled_tokens for step in steps) == 64
    assert len(driven.engine.finish_reasons) == 40


@SYNC_AND_ASYNC
def test_two_tiers_keep_more_of_a_hot_set_than_lru(drive: Drive, deepseek: str, async_scheduling: bool) -> None:
    def hit_rate(**knobs: float) -> float:
        driven = drive(model=deepseek, async_scheduling=async_scheduling, **SMALL)
        driven.patch(**knobs)
        source, steps = random.Random(3), driven.watch_steps()
        hot = [[source.randrange(500) for _ in range(512)] for _ in range(5)]
        for number in range(500):
            again = source.random() < 0.35
            prompt = source.choice(hot) if again else [source.randrange(500) for _ in range(512)]
            driven.engine.add_request(f"r{number}", prompt, 2)
            if number % 4 == 3:
                driven.engine.run_until_idle()
        hits = sum(new.num_computed_tokens for step in steps for new in step.scheduled_new_reqs)
        return float(hits) / (500 * 512)

    stock, tiered = hit_rate(), hit_rate(hot_cache_ratio=0.4)
    print(f"hit rate: LRU {stock:.3f}, two tiers at 0.4 {tiered:.3f}")
    assert tiered > 1.2 * stock > 0


def test_fragmentation_is_the_empty_slots_of_the_last_blocks(drive: Drive, deepseek: str) -> None:
    driven = drive(model=deepseek, **SMALL)
    for number, length in enumerate((17, 32, 40)):
        driven.engine.add_request(f"r{number}", range(100 * number, 100 * number + length), 30)
    driven.engine.step()
    stats = driven.call("stats", since={"*": 0})["kv"]
    # 17, 32 and 40 tokens take 2, 2 and 3 blocks of 16.
    assert (stats["wasted_slots"], stats["allocated_slots"]) == (15 + 0 + 8, 7 * 16)


@SYNC_AND_ASYNC
@pytest.mark.parametrize("prefix_caching", [True, False], ids=["cached", "uncached"])
def test_every_request_gets_its_own_tokens_whatever_the_knobs_do(
    drive: Drive, deepseek: str, async_scheduling: bool, prefix_caching: bool
) -> None:
    settings = {**SMALL, "num_blocks": 100, "max_num_seqs": 24, "max_model_len": 256}
    driven = drive(model=deepseek, async_scheduling=async_scheduling, prefix_caching=prefix_caching, **settings)
    source, changes = random.Random(7), 0
    got: dict[str, list[int]] = {}
    asked: dict[str, int] = {}
    shared = [source.randrange(500) for _ in range(64)]
    off = {name for name, support in _supports(driven).items() if support == "off"}
    while len(asked) < 2000 or driven.engine.busy:
        if len(asked) < 2000 and source.random() < 0.7:
            prompt = shared[: source.choice((0, 16, 64))] + [
                source.randrange(500) for _ in range(source.randint(1, 60))
            ]
            name = f"q{len(asked)}"
            asked[name] = source.randint(1, 24)
            driven.engine.add_request(name, prompt, asked[name])
        if source.random() < 0.2:
            changes += _disturb(driven, source, off, prefix_caching)
        for name, tokens in driven.engine.step().items():
            got.setdefault(name, []).extend(tokens)
    assert got == {name: driven.engine.expected(name, length) for name, length in asked.items()}
    assert changes > 200
    assert driven.read()["degraded"] == []
    pool = driven.scheduler.kv_cache_manager.block_pool
    assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1


def _disturb(driven: Any, source: random.Random, off: set[str], cached: bool) -> int:
    """One change, or one purge with preemption; 0 when it was refused."""
    knobs: dict[str, Any] = {
        "max_num_seqs": source.choice((1, 4, 24)),
        "max_num_batched_tokens": source.choice((32, 100, 1024)),
        "long_prefill_token_threshold": source.choice((0, 8, 50)),
        "watermark_blocks": source.choice((0, 10, 40)),
        "hot_cache_ratio": source.choice((0, 0.4, 0.9)),
        "length_grouping": source.random() < 0.5,
    }
    try:
        if source.random() < 0.2:
            expect = {driven.governor.boot_id: None}
            driven.call("purge", expect=expect, ratio=0.5 if cached else 0, preempt=source.choice((0, 3)))
        else:
            chosen = source.sample(sorted(knobs.keys() - off), 2)
            driven.patch(**{name: knobs[name] for name in chosen})
    except GovernorError:
        return 0
    return 1


# --- the model itself, on the CPU ---


@pytest.fixture
def computing(drive: Drive, deepseek: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An engine core whose worker computes the model."""
    import torch
    from vllm.v1.executor.uniproc_executor import UniProcExecutor

    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)  # vLLM's experts for AMX take no float32
    settings = {"num_blocks": 256, "max_num_seqs": 12, "max_num_batched_tokens": 2048, "max_model_len": 512}
    try:
        extra = {"dtype": "float32", "kv_cache_memory_bytes": 1 << 26}  # not a share of whatever memory there is
        return drive(model=deepseek, executor_class=UniProcExecutor, extra=extra, **settings)
    except NotImplementedError as error:
        pytest.skip(f"this vLLM does not compute it here: {error}")


def _answers(driven: Any) -> dict[str, list[int]]:
    got: dict[str, list[int]] = {}
    driven.add(24, prompt_tokens=24, max_tokens=10)
    most = 0
    while driven.engine.busy:
        for name, tokens in driven.engine.step().items():
            got.setdefault(name, []).extend(tokens)
        most = max(most, len(driven.scheduler.running))
    assert most == driven.read()["knobs"]["max_num_seqs"]["value"]
    return got


def test_the_model_answers_the_same_under_any_cap_and_grouping(computing: Any) -> None:
    undisturbed = _answers(computing)
    assert {len(tokens) for tokens in undisturbed.values()} == {10}
    assert len({tuple(tokens) for tokens in undisturbed.values()}) > 5
    computing.patch(max_num_seqs=4, length_grouping=True)
    assert _answers(computing) == undisturbed
    computing.patch(max_num_seqs=12)
    assert _answers(computing) == undisturbed
    assert computing.read()["degraded"] == []


def test_the_model_goes_on_where_it_was_when_it_is_preempted(computing: Any) -> None:
    undisturbed = _answers(computing)
    computing.lease(60)  # preempting lowers the cap
    computing.add(24, prompt_tokens=24, max_tokens=10)
    got: dict[str, list[int]] = {}
    for step in range(1000):
        if step == 4:
            boot = {computing.governor.boot_id: None}
            last = computing.call("purge", expect=boot, ratio=0, preempt=5)["purge"]["last"]
            assert last["preempted"] == 5
        for name, tokens in computing.engine.step().items():
            got.setdefault(name, []).extend(tokens)
        if not computing.engine.busy:
            break
    assert got == undisturbed


def test_what_this_device_switches_off_for_the_model_is_said_with_a_reason(computing: Any) -> None:
    runtime = computing.read()
    cached = computing.scheduler.cache_config.enable_prefix_caching
    for entry in (runtime["purge"], runtime["knobs"]["hot_cache_ratio"]):
        assert (entry["support"], entry["reason"] is None) == (("native", True) if cached else ("off", False))
    floor = runtime["knobs"]["max_num_batched_tokens"]["min"]
    chunked = computing.scheduler.scheduler_config.enable_chunked_prefill
    assert floor < 512 if chunked else floor == 512
