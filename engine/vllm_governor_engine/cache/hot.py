"""The two-tier prefix cache of one scheduler: its settings, which blocks are hot, and what happens as time passes.

Here: settings, learning of hits, the upkeep between steps. Never here: the order of free blocks (`tiers`) or the score
of what keeping them wins (`share`).

How hits are learnt. A hit is a request's, so neither `block_pool.touch` (connectors touch too, and it is called with
blocks, not requests) nor a lookup (`get_computed_blocks` is asked again at every step in which the head of the queue
does not fit) tells one. Both would also be paid for on calls that are no hits, and wrapping `allocate_slots` would be
paid for once per running request and step. What `schedule()` returns names each newly admitted request with its block
table and the number of tokens that were there already: looking at that after the step costs one attribute read in a
step that admits nobody and about 0.1 us per hit block in one that does, needs no further hook, and sees each admission
exactly once. A request that was preempted and comes back hits its own blocks: it is passed over.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import pools, tiers
from .reclaim import Reclaimer

HIGHEST_RATIO = 0.9
UPKEEP_EVERY_S = 0.1
"""Seconds between two looks at what has expired."""
UPKEEP_BLOCKS = 128
"""Blocks dropped or let go at most in one look: well under 0.1 ms, 0.4 ms with KV events on."""


@dataclass(frozen=True)
class HotSettings:
    """The knobs of the two-tier cache. The defaults are vLLM's behaviour: off."""

    ratio: float = 0.0
    """Largest share of the pool kept hot beyond LRU's order, 0 (off) .. 0.9."""
    min_size_mb: float = 0.0
    """What the score may not shrink that share below, MB (2^20 bytes) per worker; capped by the ratio's share."""
    hot_ttl_s: float = math.inf
    """Seconds without a use after which a hot block is hot no more."""
    cold_ttl_s: float = math.inf
    """Seconds without a use after which a cold block may be dropped ahead of need."""
    reclaim_threshold: float = 1.0
    """Share of the pool in use or cached above which expired cold blocks are dropped, 0 .. 1 (off)."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("ratio", 0.0, HIGHEST_RATIO),
            ("min_size_mb", 0.0, math.inf),
            ("hot_ttl_s", 0.0, math.inf),
            ("cold_ttl_s", 0.0, math.inf),
            ("reclaim_threshold", 0.0, 1.0),
        ):
            if not low <= getattr(self, name) <= high:  # NaN is not either
                raise ValueError(f"cannot use {name}={getattr(self, name)!r}: it must be from {low} to {high}")

    @property
    def reclaims(self) -> bool:
        """Whether anything is ever dropped ahead of need."""
        return self.reclaim_threshold < 1 and self.cold_ttl_s < math.inf

    @property
    def on(self) -> bool:
        """Whether the queue has to be a tiered one."""
        return self.ratio > 0 or self.reclaims


class HotCache:
    """The two-tier cache of one scheduler. Built cold: until `apply` switches it on nothing of vLLM is touched.

    While `on`, the caller runs `before_step` before and `after_step` after each `schedule()`. Any exception out of
    them means that this vLLM is not understood: call `off`, which gives vLLM its queue back.
    """

    def __init__(self, scheduler: Any, block_bytes: int) -> None:
        self.support = pools.tier_support(scheduler)
        self.settings = HotSettings()
        self._scheduler = scheduler
        self._block_bytes = max(1, block_bytes)
        self._tiers: tiers.Tiers | None = None
        self._reclaimer: Reclaimer | None = None
        self._next_upkeep_s = 0.0
        self._scored: int | None = None
        self._key_of: Callable[[Any], Any] | None = None

    @property
    def on(self) -> bool:
        """Whether the queue is tiered now."""
        return self._tiers is not None

    @property
    def _pool(self) -> Any:
        return self._scheduler.kv_cache_manager.block_pool

    def apply(self, settings: HotSettings, now_s: float) -> None:
        """Puts settings in force, between two steps. Raises ``ValueError`` when this vLLM does not have the tiers."""
        if settings.on and self.support.off:
            raise ValueError(f"cannot use two cache tiers: {self.support.reason}")
        self.settings = settings
        if not settings.on:
            self.off()
            return
        state = self._tiers or self._switch_on(now_s)
        state.hot_ttl_s = settings.hot_ttl_s
        state.share.bound(self.limit_blocks, self.floor_blocks)

    def off(self) -> None:
        """vLLM's own queue again; what is cached stays cached. Safe to call twice."""
        self._tiers = self._reclaimer = None
        tiers.switch_off(self._pool)

    @property
    def limit_blocks(self) -> int:
        """The most blocks the ratio lets the tier keep."""
        usable = int(self._pool.num_gpu_blocks) - 1  # without the null block
        return math.ceil(self.settings.ratio * usable)

    @property
    def floor_blocks(self) -> int:
        """What the score may not shrink the tier below: the minimum size, or all the ratio gives if that is less."""
        wanted = math.ceil(self.settings.min_size_mb * 2**20 / self._block_bytes)
        return min(wanted, self.limit_blocks)

    def before_step(self, now_s: float) -> None:
        """Lets time pass, and looks now and then at what has expired."""
        state = self._tiers
        if state is None:
            return
        state.now_s = now_s
        if now_s >= self._next_upkeep_s:
            self._next_upkeep_s = now_s + UPKEEP_EVERY_S
            self._upkeep(state, now_s)

    def after_step(self, output: Any) -> None:
        """Learns from a `SchedulerOutput` which blocks were hit by another request than the one that made them."""
        admitted = output.scheduled_new_reqs
        if admitted and self._tiers is not None:
            for new in admitted:
                self._admitted(self._tiers, new)

    def stats(self) -> dict[str, int]:
        """Blocks: `kept` beyond LRU's order now and the `cold` ones, free and cached as well; the `target` and `limit`
        of what is kept; and since the switch-on how many hits of `won` LRU would have missed, how many of `lost` it
        would have had, how many were `reclaimed`."""
        state, reclaimer = self._tiers, self._reclaimer
        if state is None or reclaimer is None:
            return {"kept": 0, "cold": 0, "target": 0, "limit": 0, "won": 0, "lost": 0, "reclaimed": 0}
        share = state.share
        return {
            "kept": share.kept,
            "cold": max(0, reclaimer.free_cached_blocks() - share.kept),
            "target": int(share.target),
            "limit": share.limit,
            "won": share.wins,
            "lost": share.losses,
            "reclaimed": reclaimer.blocks,
        }

    def _switch_on(self, now_s: float) -> tiers.Tiers:
        self._scored = pools.scored_group(self._scheduler)
        self._key_of = None if self._scored is None else _key_maker(self._scored)
        state = self._tiers = tiers.switch_on(self._pool, now_s)
        self._reclaimer = Reclaimer(self._pool, state)
        self._next_upkeep_s = now_s + UPKEEP_EVERY_S
        return state

    def _admitted(self, state: tiers.Tiers, new: Any) -> None:
        request = self._scheduler.requests.get(new.req_id)
        if request is None or request.num_preemptions:
            return
        hit_tokens = _local_hit_tokens(request, new)
        managers = self._scheduler.kv_cache_manager.coordinator.single_type_managers
        mark, pool = state.mark, self._pool
        for group, (manager, ids) in enumerate(zip(managers, new.block_ids, strict=False)):
            if manager.block_pool is not pool:
                continue
            hit_blocks = hit_tokens // manager.block_size
            won = 0
            for number in ids[:hit_blocks]:
                is_now = mark[number]
                if is_now == tiers.COLD:
                    mark[number] = tiers.HOT
                elif is_now == tiers.WON:
                    mark[number] = tiers.HOT
                    won += 1
            if group == self._scored:
                self._score(state, request, won, hit_blocks, (request.num_prompt_tokens - 1) // manager.block_size)

    def _score(self, state: tiers.Tiers, request: Any, won: int, hit_blocks: int, most_blocks: int) -> None:
        if won:
            state.share.won(won)
        if self._key_of is not None and hit_blocks < most_blocks and state.share.memory:
            hashes = request.block_hashes  # a list, or a view that makes each when asked
            most_blocks = min(most_blocks, len(hashes))
            state.share.missed((hashes[place] for place in range(hit_blocks, most_blocks)), self._key_of)

    def _upkeep(self, state: tiers.Tiers, now_s: float) -> None:
        self._let_go(state, now_s)
        settings, reclaimer = self.settings, self._reclaimer
        if settings.reclaims and reclaimer is not None:
            reclaimer.turn(settings.reclaim_threshold, now_s - settings.cold_ttl_s, UPKEEP_BLOCKS)

    def _let_go(self, state: tiers.Tiers, now_s: float) -> None:
        """Kept blocks that are hot no more, or hold nothing since somebody reset the cache, become the next to go."""
        queue = self._pool.free_block_queue
        oldest_s = now_s - state.hot_ttl_s
        for _ in range(min(UPKEEP_BLOCKS, state.share.kept)):
            block = state.first_kept
            number = block.block_id
            if number in state.watched or (block.block_hash is not None and state.freed_at_s[number] >= oldest_s):
                return
            tiers.release(queue, block)


def _local_hit_tokens(request: Any, new: Any) -> int:
    """Tokens found in this pool's cache at admission, without those a KV connector brought."""
    counted = getattr(request, "prefill_stats", None)  # taken away later in the step, by whoever reports it
    local = getattr(counted, "num_local_cached_tokens", None)
    if local is not None:
        return int(local)
    return max(0, int(new.num_computed_tokens) - int(getattr(request, "num_external_computed_tokens", 0)))


def _key_maker(group: int) -> Callable[[Any], Any]:
    """What turns a request's block hash into the pool's key for it in a cache group."""
    make = importlib.import_module("vllm.v1.core.kv_cache_utils").make_block_hash_with_group_id
    return lambda block_hash: make(block_hash, group)
