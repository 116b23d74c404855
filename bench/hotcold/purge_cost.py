"""What a purge of half of 100,000 cached blocks costs the engine's thread, piece by piece, and the requests: nothing.

Belongs here: filling a pool, purging it, timing the pieces. Never: the purge itself.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from bench.emulated_gpu.inprocess import EngineSettings, InProcessEngine
from bench.emulated_gpu.settings import EmulatedGpu
from bench.emulated_gpu.step_model import INSTANT
from bench.hotcold.governed import with_tiers

BLOCKS = 100_000
RATIO = 0.5
CHAIN = 100
"""Blocks of one made-up request."""
REQUESTS = 200
"""Requests that run while the purge goes on."""
_SETTINGS = EngineSettings(num_blocks=BLOCKS + 1_001, max_num_seqs=16, gpu=EmulatedGpu(step=INSTANT))


def measure() -> dict[str, object]:
    """Pieces under vLLM's own queue, a tiered one, and vLLM's own with KV events (where each eviction makes one)."""
    return {
        "blocks": BLOCKS,
        "ratio": RATIO,
        "stock": _one(_SETTINGS, tiered=False),
        "tiered": _one(_SETTINGS, tiered=True),
        "kv_events": _one(replace(_SETTINGS, extra={"kv_events_config": _events()}), tiered=False),
    }


def _events() -> Any:
    from vllm.config.kv_events import KVEventsConfig

    return KVEventsConfig(enable_kv_cache_events=True, publisher="null")


def _one(settings: EngineSettings, tiered: bool) -> dict[str, object]:
    from vllm_governor_engine.cache.pools import block_bytes, pools_of
    from vllm_governor_engine.cache.purge import Purge

    with InProcessEngine(settings) as engine:
        manager = engine.scheduler.kv_cache_manager
        _fill(manager.block_pool, settings.block_size)
        if tiered:
            with_tiers(engine, ratio=0.4)
        for number in range(REQUESTS):
            engine.add_request(f"r{number}", range(number, number + 100), 50)
        purge = Purge(pools_of(engine.scheduler), RATIO, block_bytes(manager.kv_cache_config))
        wall_us: list[float] = []
        cpu_us: list[float] = []
        answers: dict[str, list[int]] = {}
        more = True
        while more or engine.busy:
            if more:
                wall_s, cpu_s = time.perf_counter(), time.thread_time()
                more = purge.piece(time.perf_counter)
                cpu_us.append((time.thread_time() - cpu_s) * 1e6)
                wall_us.append((time.perf_counter() - wall_s) * 1e6)
            for request_id, tokens in engine.step().items():
                answers.setdefault(request_id, []).extend(tokens)
        failed = sum(answers.get(f"r{n}") != engine.expected(f"r{n}", 50) for n in range(REQUESTS))
        return {
            "purged": purge.report().blocks,
            "pieces": len(wall_us),
            "wall_us": {"median": round(statistics.median(wall_us)), "max": round(max(wall_us))},
            "cpu_us": {"median": round(statistics.median(cpu_us)), "max": round(max(cpu_us))},
            "total_cpu_ms": round(sum(cpu_us) / 1e3, 1),
            "failed_requests": failed,
        }


def _fill(pool: Any, block_tokens: int) -> None:
    """Caches BLOCKS blocks of requests that never were, and frees them."""
    for first in range(0, BLOCKS, CHAIN):
        blocks = pool.get_new_blocks(CHAIN)
        request = SimpleNamespace(
            block_hashes=[number.to_bytes(32, "big") for number in range(first, first + CHAIN)],
            all_token_ids=[0] * (CHAIN * block_tokens),
            lora_request=None,
            mm_features=[],
            cache_salt=None,
            prompt_embeds=None,
            session_id=None,
        )
        pool.cache_full_blocks(request, blocks, 0, CHAIN, block_tokens, 0)
        pool.free_blocks(reversed(blocks))
    pool.take_events()
