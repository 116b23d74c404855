"""The growth factor in force, and what the last raise cost.

Belongs here: the seeds' checks on batch_size_growth and on the memory of each step of max_num_seqs. Never: whether to
grow.
"""

from __future__ import annotations

from dataclasses import replace

from domain.decision import Reason
from domain.view import View
from policies.batch_resize.scene import Scene
from policies.batch_resize.settings import BatchResizeSettings
from policies.batch_resize.state import BatchResizeState
from policies.profiles import Profile

DEFAULT_FACTOR = 1.5
MEMORY_STEP = 8
"""The seeds judge the memory of each 8 requests more."""


def set_factor(settings: BatchResizeSettings, profile: Profile | None) -> float:
    """The factor as set: the settings', else the profile's, else the seeds'."""
    if settings.growth_factor is not None:
        return settings.growth_factor
    return profile.golden.growth_factor if profile is not None and profile.golden is not None else DEFAULT_FACTOR


def factor(state: BatchResizeState, settings: BatchResizeSettings, profile: Profile | None) -> float:
    """The factor in force."""
    if state.growth_factor is not None:
        return state.growth_factor
    return state.growth_base if state.growth_base is not None else set_factor(settings, profile)


def follow(
    state: BatchResizeState, settings: BatchResizeSettings, view: View, profile: Profile | None
) -> BatchResizeState:
    """Correct the factor: into its range when the load swings, a step down when P99 rose after a raise, back later."""
    state = _stabilise(state, settings, view, profile)
    rise = view.latency_slope_ratio
    if rise is None:
        return state
    base = state.growth_base if state.growth_base is not None else set_factor(settings, profile)
    now, changed_s, moved_s = factor(state, settings, profile), state.changed_s, state.growth_changed_s
    if rise > settings.latency_rise_ratio:
        judged = changed_s is not None and moved_s is not None and moved_s >= changed_s
        fresh = state.raised and changed_s is not None and view.now_s - changed_s <= settings.latency_rise_for_s
        if fresh and not judged and now > settings.growth_factor_min:
            lowered = max(settings.growth_factor_min, round(now - settings.growth_factor_step, 6))
            return replace(state, growth_factor=lowered, growth_changed_s=view.now_s)
    elif now < base and moved_s is not None and view.now_s - moved_s >= settings.growth_restore_s:
        restored = min(base, round(now + settings.growth_factor_step, 6))
        return replace(state, growth_factor=restored, growth_changed_s=view.now_s)
    return state


def _stabilise(
    state: BatchResizeState, settings: BatchResizeSettings, view: View, profile: Profile | None
) -> BatchResizeState:
    """The seeds' tree: QPS swings by over 30 % -> a factor outside 1.3 to 1.8 becomes 1.5."""
    swing = view.requests_per_s_swing_ratio
    inside = settings.growth_factor_min <= set_factor(settings, profile) <= settings.growth_factor_max
    if inside or state.growth_base is not None or swing is None or swing <= settings.swing_ratio:
        return state
    return replace(state, growth_base=settings.growth_factor_stable, growth_factor=None)


def memory_cost_ratio(scene: Scene) -> float | None:
    """GPU memory, as a share of the card's, that the last raise took for each 8 requests; None: no raise, or unknown.

    The whole of NVML's figure is compared, not its level: vLLM's KV pool is allocated at the start, so what a raise
    adds lies outside the pool. Room inside the pool is judged by its usage.
    """
    state, memory = scene.state, scene.view.gpu_memory_usage_ratio
    if not state.raised or memory is None or state.memory_before_ratio is None or state.previous_cap is None:
        return None
    return (memory - state.memory_before_ratio) / (scene.cap - state.previous_cap) * MEMORY_STEP


def objection(scene: Scene) -> tuple[Reason, str] | None:
    """What memory has against another raise; nothing where it is unknown."""
    s, cost = scene.settings, memory_cost_ratio(scene)
    if cost is not None and cost >= s.memory_cost_ratio and scene.since_change_s < s.memory_recheck_s:
        figures = f"{cost:.1%} of GPU memory per {MEMORY_STEP} requests ({s.memory_cost_ratio:.0%} at most)"
        return Reason.HOLD_MEMORY_COST, f"the last raise took {figures}"
    fragmented = scene.view.allocator_fragmentation_ratio
    if fragmented is not None and fragmented >= s.max_fragmentation_ratio:
        return Reason.HOLD_FRAGMENTATION, f"{fragmented:.0%} of the allocator's memory is split and unused"
    return None
