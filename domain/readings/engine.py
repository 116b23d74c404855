"""The plugin's statistics of each engine core (docs/stats.md): counters and sums since the collection began.

Belongs here: the answer of `GET /governor/v1/stats` as frozen values. Never: how it is fetched, differences.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepSums:
    """Sums over engine steps; the products are what least squares of seconds ~ a + b tokens + c context needs."""

    n: int
    tokens: float
    context: float
    seconds: float
    budget_tokens: float
    tokens_tokens: float
    tokens_context: float
    context_context: float
    tokens_seconds: float
    context_seconds: float
    seconds_seconds: float
    between_seconds: float
    empty: int
    samples: int
    """How many steps `running` and `waiting` were summed over."""
    running: float
    waiting: float

    def since(self, earlier: StepSums) -> StepSums | None:
        """What was added after `earlier`; None when anything went down (the collection began anew)."""
        deltas = {name: getattr(self, name) - getattr(earlier, name) for name in self.__slots__}
        return None if any(delta < 0 for delta in deltas.values()) else StepSums(**deltas)


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request that ended; see docs/stats.md. Seconds; None where it never came that far."""

    finished_at: float
    reason: str
    prompt_tokens: int
    output_tokens: int
    hit_tokens: int
    preemptions: int
    queue_s: float
    ttft_s: float | None
    e2e_s: float
    tpot_s: float | None


@dataclass(frozen=True, slots=True)
class CoreStats:
    """One engine core. None: that group of figures is off or does not fit this vLLM."""

    index: int
    boot_id: str
    steps: StepSums | None = None
    admitted: int | None = None
    gave_up: int | None = None
    preemptions: int | None = None
    hot_requests: int | None = None
    cold_requests: int | None = None
    cache_prompt_tokens: int | None = None
    cache_hit_tokens: int | None = None
    prompt_tokens_p10: float | None = None
    prompt_tokens_p90: float | None = None
    evictions: int | None = None
    reallocations: int | None = None
    kv_fragmentation_ratio: float | None = None
    kv_pool_bytes: int | None = None
    """What the whole KV cache takes on one worker."""
    oldest_waiting_s: float | None = None
    real_tokens: int | None = None
    padded_tokens: int | None = None
    allocator_reserved_bytes: int | None = None
    """Summed over the workers, as is the next."""
    allocator_inactive_split_bytes: int | None = None
    held: int | None = None
    """Waiting requests that the admission window holds back now."""
    windows: int | None = None
    regroupings: int | None = None
    hot_blocks: int | None = None
    """Free blocks in the hot tier now; None while the tiers are off."""
    cold_blocks: int | None = None
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineStats:
    """All engine cores, and the requests that ended since the reading before."""

    cores: tuple[CoreStats, ...]
    records: tuple[RequestRecord, ...] = ()
    records_lost: int = 0
    """Records that were overwritten before they were read."""
