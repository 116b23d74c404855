"""The capacity model: how long a step of this engine takes, learned from the steps it makes.

Recursive least squares with forgetting, from the plugin's sums. Belongs here: which steps are taken in, which are
outliers, when the fit is believed. Never: what a policy makes of it (domain/capacity.py answers its questions).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations

from pydantic import Field

from domain.capacity import Capacity
from domain.readings.engine import StepSums
from domain.view import View
from policies.base import PolicySettings
from policies.least_squares import Sums, fit, relative_error, sums_of, total, weakness

CONTEXT_SHARE = 0.1
"""What a new window counts in the mean context of a request: about the last ten windows."""
ERROR_WINDOWS = 20
"""Over how many windows the error is averaged."""


class CapacitySettings(PolicySettings):
    """How the model learns and when it is believed: `[policies.capacity]`."""

    min_steps: int = Field(default=10, ge=1, description="steps of one window; fewer wait for the next reading")
    start_windows: int = Field(
        default=8, ge=3, le=10, description="the first fit is of that many, of the larger half that agrees best"
    )
    memory_windows: float = Field(default=100.0, ge=10.0, description="a window this many windows ago counts a third")
    min_windows: int = Field(default=10, ge=3, description="fewer are not trusted")
    gate: float = Field(
        default=9.0, gt=1.0, description="a window whose mean square error is over this many usual ones is an outlier"
    )
    restart_after: int = Field(default=5, ge=2, description="so many outliers in a row are a new engine: learn anew")
    noise_floor_ratio: float = Field(
        default=0.1, gt=0.0, le=1.0, description="steps are taken to scatter by this much at least, of their mean"
    )
    max_relative_error: float = Field(default=0.4, gt=0.0, description="a fit that misses by more is not trusted")
    max_standard_error: float = Field(
        default=0.1, gt=0.0, description="nor one that would be off by more at twice the usual tokens or context"
    )


DEFAULTS = CapacitySettings()


@dataclass(frozen=True, slots=True)
class CapacityState:
    """Plain values; each tuple of floats holds the fields of `least_squares.Sums` in their order, or nothing."""

    boot_id: str | None = None
    partial: tuple[float, ...] = ()
    """Steps that do not make a window yet."""
    learned: tuple[float, ...] = ()
    """Empty until the first fit."""
    pending: tuple[tuple[float, ...], ...] = ()
    """Before the first fit: its windows. After: the outliers in a row."""
    windows: int = 0
    mean_square: float = 0.0
    """Running relative mean square error."""
    request_context: float | None = None


def update(state: CapacityState, view: View, settings: CapacitySettings = DEFAULTS) -> CapacityState:
    """Learn from the steps since the view before. Another boot of the engine is another engine."""
    boot_id = view.runtime.boot_id if view.runtime is not None else state.boot_id
    if boot_id != state.boot_id:
        state = CapacityState(boot_id=boot_id)
    if view.steps is None or view.steps.n <= 0:
        return state
    state = replace(state, request_context=_context(state.request_context, view.steps))
    window = Sums(*state.partial).plus(sums_of(view.steps))
    if window.n < settings.min_steps:
        return replace(state, partial=tuple(window))
    state = replace(state, partial=())
    return _learn(state, window, settings) if state.learned else _begin(state, window, settings)


def model(state: CapacityState, settings: CapacitySettings = DEFAULTS) -> Capacity | None:
    """What was learned so far and whether to believe it; None before the first fit."""
    if not state.learned:
        return None
    learned = Sums(*state.learned)
    a, b, c = fit(learned)
    pause_s = learned.between / learned.n
    error = math.sqrt(state.mean_square)
    doubt = _doubt(state, learned, error, settings)
    figures = f"{(a + pause_s) * 1e3:.3g} ms + {b * 1e6:.3g} us a token + {c * 1e9:.3g} ns a context token"
    why = (
        f"not trusted: {doubt}"
        if doubt is not None
        else f"a step takes {figures}, off by {error:.1%} over {state.windows} windows"
    )
    return Capacity(a + pause_s, b, c, error, state.windows, doubt is None, why, state.request_context)


def _doubt(state: CapacityState, learned: Sums, error: float, settings: CapacitySettings) -> str | None:
    if state.windows < settings.min_windows:
        return f"it was fitted from {state.windows} windows of steps, {settings.min_windows} are needed"
    if error > settings.max_relative_error:
        return f"it misses the step time by {error:.0%}"
    return weakness(learned, max(error, settings.noise_floor_ratio), settings.max_standard_error)


def _begin(state: CapacityState, window: Sums, settings: CapacitySettings) -> CapacityState:
    """Least trimmed squares: of all larger halves of the first windows, the one that agrees best with itself."""
    pending = (*state.pending, tuple(window))
    if len(pending) < settings.start_windows:
        return replace(state, pending=pending)
    windows = [Sums(*values) for values in pending]
    half = len(windows) // 2 + 1
    best = min((total(some) for some in combinations(windows, half)), key=lambda sums: relative_error(sums, fit(sums)))
    theta = fit(best)
    usual = max(relative_error(best, theta), settings.noise_floor_ratio**2)
    taken = [one for one in windows if relative_error(one, theta) <= settings.gate * usual]
    learned = total(taken)
    return replace(
        state,
        learned=tuple(learned),
        pending=(),
        windows=len(taken),
        mean_square=relative_error(learned, fit(learned)),
    )


def _learn(state: CapacityState, window: Sums, settings: CapacitySettings) -> CapacityState:
    learned = Sums(*state.learned)
    missed = relative_error(window, fit(learned))
    if missed > settings.gate * max(state.mean_square, settings.noise_floor_ratio**2):
        outliers = (*state.pending, tuple(window))
        if len(outliers) < settings.restart_after:
            return replace(state, pending=outliers)
        anew = CapacityState(boot_id=state.boot_id, request_context=state.request_context)
        for values in outliers:
            anew = _begin(anew, Sums(*values), settings) if not anew.learned else anew
        return anew
    share = 1.0 / min(state.windows + 1, ERROR_WINDOWS)
    mean_square = state.mean_square + share * (missed - state.mean_square)
    state = replace(state, pending=(), windows=state.windows + 1, mean_square=mean_square)
    noise = max(math.sqrt(mean_square), settings.noise_floor_ratio)
    faded = learned.plus(window, weight=1.0 - 1.0 / settings.memory_windows)
    if weakness(faded, noise, settings.max_standard_error) and not weakness(
        learned, noise, settings.max_standard_error
    ):
        return state  # a load without variety must not wash out what a token costs: it confirms, it does not teach
    return replace(state, learned=tuple(faded))


def _context(before: float | None, steps: StepSums) -> float | None:
    """Tokens in the KV cache of one running request, averaged."""
    if steps.samples <= 0 or steps.running <= 0:
        return before
    now = (steps.context / steps.n) / (steps.running / steps.samples)
    return now if before is None else before + CONTEXT_SHARE * (now - before)
