"""Replays a recording on vLLM's own block pool, with its own free-block queue or with two tiers.

The events come in the recorded order with the same pins, so policies differ by what they evict and by nothing else.
Belongs here: that. Never: a policy, or an engine.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bench.hotcold.record import Recording

GROUP = 0


class Replay:
    """One replay. With `ratio` 0 it is vLLM's LRU, above it two tiers of that ratio."""

    def __init__(self, recording: Recording, ratio: float) -> None:
        from vllm_governor_engine.cache.hot import HotCache, HotSettings

        self._recording = recording
        self._pool = _new_pool(recording)
        self._manager = _new_manager(self._pool, recording.block_tokens)
        self._requests: dict[str, Any] = {}
        self._held: dict[int, list[Any]] = {}
        self._hashed: dict[int, int] = {}
        coordinator = SimpleNamespace(single_type_managers=[self._manager])
        scheduler = SimpleNamespace(
            kv_cache_manager=SimpleNamespace(block_pool=self._pool, coordinator=coordinator), requests=self._requests
        )
        self.tiers = HotCache(scheduler, block_bytes=1)
        self.tiers.apply(HotSettings(ratio=ratio), now_s=0.0)
        self.hits: list[int] = []

    def run(self) -> list[int]:
        """Blocks hit, by admission. Raises ``ValueError`` when the recording pins more blocks than there are."""
        steps = {"lookup": self._lookup, "grow": self._grow, "free": self._free}
        for event in self._recording.events:
            steps[event.kind](event)
        return self.hits

    def _lookup(self, event: Any) -> None:
        number = event.request
        admission = self._recording.admissions[number]
        held: list[Any] = []
        for key in admission.chain[: self._recording.limit(number)]:
            cached = self._pool.get_cached_block(key, [GROUP])
            if not cached:
                break
            held.append(cached[0])
        self._pool.touch(held)
        self._held[number] = held
        self._hashed[number] = len(held)
        self.hits.append(len(held))
        self._tell_tiers(number, [block.block_id for block in held])

    def _tell_tiers(self, number: int, hit: list[int]) -> None:
        admission = self._recording.admissions[number]
        name = str(number)
        hit_tokens = len(hit) * self._recording.block_tokens
        self._requests[name] = SimpleNamespace(
            num_preemptions=0 if admission.counted else 1,
            num_prompt_tokens=admission.prompt_tokens,
            block_hashes=admission.chain,
        )
        new = SimpleNamespace(req_id=name, num_computed_tokens=hit_tokens, block_ids=(hit,))
        self.tiers.after_step(SimpleNamespace(scheduled_new_reqs=[new]))

    def _grow(self, event: Any) -> None:
        number, held = event.request, self._held[event.request]
        if event.blocks > len(held):
            held += self._pool.get_new_blocks(event.blocks - len(held))
        self._pool.cache_full_blocks(
            request=self._requests[str(number)],
            blocks=held,
            num_cached_blocks=self._hashed[number],
            num_full_blocks=event.hashed,
            block_size=self._recording.block_tokens,
            kv_cache_group_id=GROUP,
        )
        self._hashed[number] = max(self._hashed[number], event.hashed)

    def _free(self, event: Any) -> None:
        self._pool.free_blocks(reversed(self._held.pop(event.request)))
        del self._requests[str(event.request)], self._hashed[event.request]


def hit_rate(recording: Recording, hits: list[int]) -> float:
    """Share of the prompt tokens that were hit, of all admissions but those after a preemption."""
    asked = sum(admission.prompt_tokens for admission in recording.admissions if admission.counted)
    hit = sum(blocks for blocks, admission in zip(hits, recording.admissions, strict=True) if admission.counted)
    return hit * recording.block_tokens / max(1, asked)


def _new_pool(recording: Recording) -> Any:
    from vllm.v1.core.block_pool import BlockPool

    return BlockPool(recording.pool_blocks, enable_caching=True, hash_block_size=recording.block_tokens)


def _new_manager(pool: Any, block_tokens: int) -> Any:
    """What the tiers ask of a cache manager: its pool, its block size, and that it hits whole beginnings."""
    from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager

    manager = object.__new__(FullAttentionManager)
    manager.block_pool = pool
    manager.block_size = block_tokens
    return manager
