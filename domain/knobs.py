"""The knobs by name, and what is true of each whatever the engine: which direction loosens, how long a change takes.

Belongs here: names (vLLM's where vLLM has one) and traits. Never: values or bounds (the engine says those).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

MAX_NUM_SEQS = "max_num_seqs"
"""Admission cap: requests in RUNNING per engine core (vLLM's name)."""
MAX_NUM_BATCHED_TOKENS = "max_num_batched_tokens"
"""Token budget of one engine step (vLLM's name)."""
LONG_PREFILL_TOKEN_THRESHOLD = "long_prefill_token_threshold"  # noqa: S105
ADMISSION_DELAY_MS = "admission_delay_ms"
LENGTH_GROUPING = "length_grouping"
HOT_CACHE_RATIO = "hot_cache_ratio"
HOT_CACHE_MIN_SIZE_MB = "hot_cache_min_size_mb"
HOT_TTL_S = "hot_ttl_s"
COLD_TTL_S = "cold_ttl_s"
COLD_CACHE_RECLAIM_THRESHOLD = "cold_cache_reclaim_threshold"
MAX_NUM_QUEUED_REQS = "max_num_queued_reqs"
CONNECTION_CLOSE = "connection_close"
WATERMARK_BLOCKS = "watermark_blocks"
PURGE = "purge"
"""Not a knob but an act: the share of the free cached blocks to evict, proposed, decided and recorded like one.

No engine lists it among its knobs; to want 0 is a hold.
"""
PREEMPT = "preempt"
"""An act too: so many of the newest running requests of each engine core go back to the queue (docs/rpc.md, Purge), and
the cap follows. Proposed only where an operator configured it; to want 0 is a hold.
"""

NO_LIMIT = math.inf
"""A limit that is switched off (`null` on the wire)."""


class Loosens(Enum):
    """Which direction lets more work into the engine: the one that needs evidence."""

    UP = 1
    DOWN = -1
    NEITHER = 0


@dataclass(frozen=True, slots=True)
class Traits:
    """`effect_delay_s`: how long a change needs before what is measured speaks of it."""

    loosens: Loosens
    effect_delay_s: float


TRAITS: Mapping[str, Traits] = {
    MAX_NUM_SEQS: Traits(Loosens.UP, 3.0),
    MAX_NUM_BATCHED_TOKENS: Traits(Loosens.UP, 3.0),
    LONG_PREFILL_TOKEN_THRESHOLD: Traits(Loosens.NEITHER, 10.0),
    ADMISSION_DELAY_MS: Traits(Loosens.NEITHER, 10.0),
    LENGTH_GROUPING: Traits(Loosens.NEITHER, 10.0),
    HOT_CACHE_RATIO: Traits(Loosens.NEITHER, 60.0),
    HOT_CACHE_MIN_SIZE_MB: Traits(Loosens.NEITHER, 60.0),
    HOT_TTL_S: Traits(Loosens.NEITHER, 60.0),
    COLD_TTL_S: Traits(Loosens.NEITHER, 60.0),
    COLD_CACHE_RECLAIM_THRESHOLD: Traits(Loosens.NEITHER, 60.0),
    MAX_NUM_QUEUED_REQS: Traits(Loosens.UP, 5.0),
    CONNECTION_CLOSE: Traits(Loosens.NEITHER, 5.0),
    WATERMARK_BLOCKS: Traits(Loosens.DOWN, 10.0),
    PURGE: Traits(Loosens.NEITHER, 30.0),
    PREEMPT: Traits(Loosens.NEITHER, 30.0),
}
"""Loosening a queue limit lets requests wait that would have been turned away."""


def loosens(knob: str, old: float, new: float) -> bool:
    """Whether going from `old` to `new` lets more work in."""
    return (new - old) * TRAITS[knob].loosens.value > 0 if new != old else False


def tightens(knob: str, old: float, new: float) -> bool:
    """Whether going from `old` to `new` lets less work in."""
    return (new - old) * TRAITS[knob].loosens.value < 0 if new != old else False
