"""Reading the statistics.

Here: what GET stats does in one engine core. Payload: `since` (number of the last record the caller has, by boot_id,
or under "*" for whichever core), `allocator` (whether to ask the workers). Never here: what is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from vllm_governor_engine.hot_tier import HotTier
from vllm_governor_engine.window import AdmissionWindow

if TYPE_CHECKING:
    from vllm_governor_engine.core import Governor


def read(governor: Governor, payload: Mapping[str, Any]) -> dict[str, Any]:
    """This core's part of the stats document. The first reading begins the collection."""
    since = payload.get("since", {})
    cursor = since.get(governor.boot_id, since.get("*", 0))
    figures = governor.stats.read(cursor, governor.ask_workers if payload.get("allocator") else None)
    return {
        "engine": governor.engine.index,
        "boot_id": governor.boot_id,
        "generation": governor.generation,
        "degraded": governor.degraded,
        **figures,
        "window": _or_none(lambda: governor.engine.share(AdmissionWindow).counters()),
        "tiers": _or_none(lambda: _tiers(governor.engine.share(HotTier))),
    }


def _tiers(tier: HotTier) -> dict[str, int] | None:
    return tier.cache.stats() if tier.cache.on else None


def _or_none(counters: Callable[[], dict[str, int] | None]) -> dict[str, int] | None:
    """What a mechanism counts; None where this vLLM does not let it be built."""
    try:
        return counters()
    except Exception:
        return None
