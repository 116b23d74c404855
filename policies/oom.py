"""When the engine's GPU memory runs out, as far as it can be seen from outside.

vLLM allocates its KV pool at its start, so a full card is normal. What is not: a pool in use, a card that is full all
the same, and use that goes on growing outside the pool; or an engine that died in that state and came back. Belongs
here: that signature. Never: what is done about it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from pydantic import Field

from domain.view import View
from policies import trend
from policies.base import PolicySettings
from policies.trend import Spans


class OomSettings(PolicySettings):
    """What counts as running out of memory."""

    memory_ratio: float = Field(
        default=0.98, gt=0.0, le=1.0, description="effective memory (without the idle part of the KV pool) over this"
    )
    growth_ratio: float = Field(
        default=0.005, gt=0.0, le=1.0, description="and the card's memory grown by this share of it, outside the pool"
    )
    growth_window_s: float = Field(default=60.0, gt=0.0, description="within so long")
    death_window_s: float = Field(
        default=60.0, ge=0.0, description="memory over memory_ratio so shortly before the engine restarted"
    )


@dataclass(frozen=True, slots=True)
class OomWatch:
    """What has to be remembered. Plain values; times are the View's monotonic seconds."""

    boot_id: str | None = None
    alive_s: float | None = None
    """When the engine core last answered."""
    pressed_s: float | None = None
    """When effective memory was last over the level."""
    memory: Spans = ()
    """Lowest GPU memory in use over the growth window, of this boot."""


class Signature(NamedTuple):
    """What was seen, as a clause with its numbers; `restarted`: the engine died of it."""

    clause: str
    restarted: bool = False


def watch(state: OomWatch, view: View, settings: OomSettings) -> tuple[OomWatch, Signature | None]:
    """What to remember, and the signature if there is one now.

    Unknown memory (no NVML, unified memory, a source that is stale) is no signature, nor is a restart without pressure.
    """
    if view.runtime is None:
        return state, None  # nobody answers: whether it died is known once it is back
    died = _died(state, view, settings)
    if state.boot_id != view.runtime.boot_id:
        state = OomWatch(boot_id=view.runtime.boot_id)
    state = replace(state, alive_s=view.now_s)
    effective, used = view.effective_memory_ratio, view.gpu_memory_usage_ratio
    if effective is None or used is None:
        return state, died
    state = replace(state, memory=trend.take(state.memory, view.now_s, used, settings.growth_window_s))
    grown = trend.rise(state.memory, used) or 0.0
    if effective <= settings.memory_ratio:
        return state, died
    state = replace(state, pressed_s=view.now_s)
    if grown < settings.growth_ratio:
        return state, died
    clause = (
        f"effective GPU memory is {effective:.1%} (over {settings.memory_ratio:.0%}) and the card's use grew by "
        f"{grown:.1%} within {settings.growth_window_s:g} s"
    )
    return state, Signature(clause)


def _died(state: OomWatch, view: View, settings: OomSettings) -> Signature | None:
    if view.runtime is None or state.boot_id is None or state.boot_id == view.runtime.boot_id:
        return None
    if state.pressed_s is None or state.alive_s is None or state.alive_s - state.pressed_s > settings.death_window_s:
        return None
    ago_s = state.alive_s - state.pressed_s
    clause = f"the engine restarted {ago_s:.0f} s after its memory was over {settings.memory_ratio:.0%}"
    return Signature(clause, restarted=True)
