"""What batch_resize carries from one view to the next.

Belongs here: the state, and what is noticed of the cap and the budget whoever moved them. Never: what is wanted of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from domain.knobs import MAX_NUM_BATCHED_TOKENS
from domain.view import View
from policies.batch_resize.settings import BatchResizeSettings
from policies.idle import idle
from policies.trend import Points


@dataclass(frozen=True, slots=True)
class BatchResizeState:
    """Plain values; times are the View's monotonic seconds, None: never."""

    boot_id: str | None = None
    met_s: float | None = None
    """When the engine was first seen at work."""
    cap: float | None = None
    changed_s: float | None = None
    previous_cap: float | None = None
    """The cap before the last change."""
    memory_ratio: float | None = None
    """GPU memory in use at the last view that said so, and before the last change of the cap."""
    memory_before_ratio: float | None = None
    suspect_cap: float | None = None
    """The cap that the last cut was proposed from; it becomes `refuted_cap` once the cut is seen in force."""
    suspect_budget: float | None = None
    """The token budget in force when that cut was proposed: under a smaller one the cap may be right."""
    refuted_cap: float | None = None
    refuted_budget: float | None = None
    refuted_until_s: float | None = None
    refuted_for_s: float = 0.0
    recommended: Points = ()
    """(when, which cap) since the last change, as long as the raise window is."""
    growth_base: float | None = None
    """What the set growth factor was corrected to because the load swung."""
    growth_factor: float | None = None
    """In force; None: the one that was set."""
    growth_changed_s: float | None = None
    budget_since_s: float | None = None
    """Since when a breach of the inter-token objective has been left to the token budget."""
    budget: float | None = None
    budget_moved_s: float | None = None
    budget_stuck: bool = False
    """It stood still through such a breach: not waited for again until it moves."""
    trim: float = 0.0
    """The slow integrator of `model`: by which part its aim is moved."""
    trimmed_s: float | None = None

    @property
    def raised(self) -> bool:
        """The last change was a raise."""
        return self.previous_cap is not None and self.cap is not None and self.cap > self.previous_cap

    @property
    def shrank(self) -> bool:
        """The last change was a cut."""
        return self.previous_cap is not None and self.cap is not None and self.cap < self.previous_cap


def observe(state: BatchResizeState, settings: BatchResizeSettings, view: View, cap: float) -> BatchResizeState:
    """Notice what happened to the cap since the last view. A new boot of the engine forgets everything."""
    boot_id = view.runtime.boot_id if view.runtime is not None else state.boot_id
    if state.boot_id != boot_id or state.cap is None:
        fresh = BatchResizeState(boot_id=boot_id, met_s=None if idle(view) else view.now_s, cap=cap)
        return replace(_follow_budget(fresh, view), memory_ratio=view.gpu_memory_usage_ratio)
    if state.met_s is None and not idle(view):
        state = replace(state, met_s=view.now_s)
    if state.cap != cap:
        state = _changed(state, settings, view.now_s, cap)
    state = _follow_budget(state, view)
    memory = view.gpu_memory_usage_ratio
    return state if memory is None else replace(state, memory_ratio=memory)


def _follow_budget(state: BatchResizeState, view: View) -> BatchResizeState:
    knob = view.runtime.knob(MAX_NUM_BATCHED_TOKENS) if view.runtime is not None else None
    if knob is None or knob.value is None or knob.value == state.budget:
        return state
    moved_s = None if state.budget is None else view.now_s
    return replace(state, budget=knob.value, budget_moved_s=moved_s, budget_stuck=False)


def _changed(state: BatchResizeState, settings: BatchResizeSettings, now_s: float, cap: float) -> BatchResizeState:
    changed = replace(
        state,
        cap=cap,
        changed_s=now_s,
        previous_cap=state.cap,
        memory_before_ratio=state.memory_ratio,
        suspect_cap=None,
        suspect_budget=None,
        recommended=(),
    )
    if not changed.shrank or state.suspect_cap != state.cap:
        return changed
    again = state.suspect_cap == state.refuted_cap
    avoid_s = min(
        settings.refuted_max_s, 2 * state.refuted_for_s if again and state.refuted_for_s else settings.refuted_s
    )
    return replace(
        changed,
        refuted_cap=state.suspect_cap,
        refuted_budget=state.suspect_budget,
        refuted_until_s=now_s + avoid_s,
        refuted_for_s=avoid_s,
    )
