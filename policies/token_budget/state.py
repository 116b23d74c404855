"""What token_budget carries from one view to the next.

Belongs here: the state, and what is noticed of the budget whoever moved it. Never: what is wanted of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from domain.view import View
from policies.hysteresis import OFF, Held
from policies.oom import OomWatch
from policies.token_budget.settings import TokenBudgetSettings
from policies.trend import Points

SAME_RATIO = 0.25
"""A budget this close to one that missed the objective misses for the same reason."""


@dataclass(frozen=True, slots=True)
class TokenBudgetState:
    """Plain values; times are the View's monotonic seconds, None: never."""

    boot_id: str | None = None
    row: int | None = None
    """The row of the table in force."""
    candidate: int | None = None
    """Another row that fits, and how long it has."""
    fitting: Held = OFF
    long_prompts: bool | None = None
    """Prompts are too long to be grouped, by the row's limit."""
    budget: float | None = None
    changed_s: float | None = None
    targets: Points = ()
    """(when, which budget would have been right), as long as the raise window is."""
    trim: float = 0.0
    """The slow integrator of the model: by which part its aim is moved."""
    trimmed_s: float | None = None
    suspect: float | None = None
    """The budget that the last cut for a broken objective was proposed from; refuted once the cut is in force."""
    refuted: float | None = None
    refuted_until_s: float | None = None
    refuted_for_s: float = 0.0
    windows: int = 0
    """What the capacity model was fitted from at the last view; fewer now: it was fitted anew, the engine changed."""
    slo_limit: float | None = None
    """What a broken objective left of the budget while there was no model to say."""
    slo_moved_s: float | None = None
    oom: OomWatch = field(default_factory=OomWatch)
    oom_limit: float | None = None
    oom_before: float | None = None
    """The budget before the first cut."""
    oom_moved_s: float | None = None
    prefill_done: bool = False
    """The long-prefill limit was moved in this boot, by whomever: it is left alone from then on."""


def observe(
    state: TokenBudgetState, settings: TokenBudgetSettings, view: View, budget: float | None
) -> TokenBudgetState:
    """Notice a new boot, which forgets all but the load and an OOM, and a budget that moved."""
    boot_id = view.runtime.boot_id if view.runtime is not None else state.boot_id
    if boot_id != state.boot_id:
        state = TokenBudgetState(
            boot_id=boot_id,
            row=state.row,
            long_prompts=state.long_prompts,
            budget=budget,
            oom=state.oom,
            oom_limit=state.oom_limit,
            oom_before=state.oom_before,
            oom_moved_s=state.oom_moved_s,
        )
    state = _refit(state, view)
    if budget is None or budget == state.budget:
        return state
    if state.budget is None:
        return replace(state, budget=budget)
    if budget < state.budget and state.suspect == state.budget:
        state = _refute(state, settings, view.now_s, state.budget)
    return replace(state, budget=budget, changed_s=view.now_s, targets=(), suspect=None)


def _refit(state: TokenBudgetState, view: View) -> TokenBudgetState:
    """What missed the objective with steps of another length is not held against the engine as it is now, and what the
    aim was trimmed by belongs to the model before.
    """
    windows = view.capacity.windows if view.capacity is not None else 0
    if windows < state.windows:
        state = replace(state, refuted=None, refuted_until_s=None, refuted_for_s=0.0, trim=0.0)
    return replace(state, windows=windows)


def _refute(state: TokenBudgetState, settings: TokenBudgetSettings, now_s: float, budget: float) -> TokenBudgetState:
    again = state.refuted is not None and abs(budget - state.refuted) <= SAME_RATIO * state.refuted
    avoid_s = min(settings.refuted_max_s, 2 * state.refuted_for_s) if again else settings.refuted_s
    return replace(state, refuted=budget, refuted_until_s=now_s + avoid_s, refuted_for_s=avoid_s)
