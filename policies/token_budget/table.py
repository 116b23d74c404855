"""The seeds' table: by request rate and mean length, the delay, the budget and the window.

Belongs here: which row is in force, without flapping at a bound, and the two knobs that follow it alone. Never: the
budget (budget.py has more to heed than the table).
"""

from __future__ import annotations

from dataclasses import replace

from domain.decision import Proposal, Reason
from domain.knobs import ADMISSION_DELAY_MS, LENGTH_GROUPING
from domain.runtime import Knob
from domain.slo import Latency
from domain.view import View
from policies.hysteresis import OFF, Waits, step
from policies.token_budget.settings import Row, TokenBudgetSettings
from policies.token_budget.state import TokenBudgetState

POLICY = "token_budget"


def fitting_row(rows: tuple[Row, ...], now: int | None, requests_per_s: float, hysteresis_ratio: float) -> int:
    """The row for this rate: entered at its bound, left only under the bound by the hysteresis."""
    if now is None:
        return next(i for i, row in enumerate(rows) if requests_per_s < row.below_requests_per_s)
    row = min(now, len(rows) - 1)
    while requests_per_s >= rows[row].below_requests_per_s:
        row += 1
    while row > 0 and requests_per_s < rows[row - 1].below_requests_per_s * (1.0 - hysteresis_ratio):
        row -= 1
    return row


def follow(state: TokenBudgetState, settings: TokenBudgetSettings, view: View) -> TokenBudgetState:
    """Another row comes into force once it has fitted for a while; an unknown rate keeps the row."""
    rate = view.requests_per_s
    if rate is None:
        fitting = step(state.fitting, view.now_s, None, None, Waits(settings.row_for_s))
        return _lengths(replace(state, fitting=fitting), settings, view)
    fits = fitting_row(settings.table, state.row, rate, settings.hysteresis_ratio)
    if state.row is not None and fits != state.row:
        before = state.fitting if state.candidate == fits else OFF
        fitting = step(before, view.now_s, True, None, Waits(settings.row_for_s))
        if not fitting.on:
            return _lengths(replace(state, candidate=fits, fitting=fitting), settings, view)
    return _lengths(replace(state, row=fits, candidate=None, fitting=OFF), settings, view)


def row_of(state: TokenBudgetState, settings: TokenBudgetSettings) -> Row | None:
    """The row in force; None before the request rate was ever known."""
    return None if state.row is None else settings.table[min(state.row, len(settings.table) - 1)]


def describe(state: TokenBudgetState, settings: TokenBudgetSettings, view: View) -> str:
    """Why this row, as a clause."""
    row = min(state.row or 0, len(settings.table) - 1)
    low = settings.table[row - 1].below_requests_per_s if row else 0.0
    high = settings.table[row].below_requests_per_s
    rate = "unknown" if view.requests_per_s is None else f"{view.requests_per_s:.3g}"
    return f"{rate} requests/s, the table's row from {low:g}" + (
        f" to {high:g}" if row < len(settings.table) - 1 else ""
    )


def delay(state: TokenBudgetState, settings: TokenBudgetSettings, view: View) -> Proposal:
    """admission_delay_ms by the row, a small part of a time-to-first-token bound at most."""
    knob = view.knob(ADMISSION_DELAY_MS)
    row = row_of(state, settings)
    if knob is None or knob.value is None or row is None or view.requests_per_s is None:
        return _abstain(ADMISSION_DELAY_MS, knob, "the request rate is not known")
    evidence = {"requests_per_s": view.requests_per_s}
    wanted, why = row.delay_ms, describe(state, settings, view)
    bound_s = min((slo.bound_s for slo in view.slos if slo.latency is Latency.TTFT), default=None)
    if bound_s is not None and settings.delay_share * bound_s * 1e3 < wanted:
        wanted = settings.delay_share * bound_s * 1e3
        why += f", at most {settings.delay_share:.0%} of the {bound_s * 1e3:.4g} ms to the first token"
    wanted = clamped(wanted, knob)
    if wanted == knob.value:
        return Proposal(
            POLICY, ADMISSION_DELAY_MS, wanted, Reason.HOLD_STEADY, f"Holding {wanted:g} ms: {why}.", evidence
        )
    sentence = f"Admission delay {knob.value:g} -> {wanted:g} ms: {why}."
    return Proposal(POLICY, ADMISSION_DELAY_MS, wanted, Reason.TABLE_ROW, sentence, evidence)


def grouping(state: TokenBudgetState, settings: TokenBudgetSettings, view: View) -> Proposal:
    """length_grouping by the row and, where the row asks for it, the mean prompt length."""
    knob = view.knob(LENGTH_GROUPING)
    row = row_of(state, settings)
    if knob is None or knob.value is None or row is None or view.requests_per_s is None:
        return _abstain(LENGTH_GROUPING, knob, "the request rate is not known")
    evidence = {"requests_per_s": view.requests_per_s, "mean_prompt_tokens": view.mean_prompt_tokens}
    why = describe(state, settings, view)
    if 0.0 < row.group_below_tokens < float("inf"):
        if state.long_prompts is None:
            return _abstain(LENGTH_GROUPING, knob, "the mean prompt length is not known")
        mean = "unknown now" if view.mean_prompt_tokens is None else f"{view.mean_prompt_tokens:.0f} tokens"
        why += f", mean prompt {mean} (limit {row.group_below_tokens:g})"
        on = not state.long_prompts
    else:
        on = row.group_below_tokens > 0.0
    word = "on" if on else "off"
    if knob.value == float(on):
        return Proposal(
            POLICY, LENGTH_GROUPING, float(on), Reason.HOLD_STEADY, f"Grouping stays {word}: {why}.", evidence
        )
    return Proposal(POLICY, LENGTH_GROUPING, float(on), Reason.TABLE_ROW, f"Grouping {word}: {why}.", evidence)


def _lengths(state: TokenBudgetState, settings: TokenBudgetSettings, view: View) -> TokenBudgetState:
    row, mean = row_of(state, settings), view.mean_prompt_tokens
    if row is None or mean is None or row.group_below_tokens in (0.0, float("inf")):
        return state
    clear = row.group_below_tokens * (1.0 - settings.hysteresis_ratio)
    return replace(state, long_prompts=mean >= (clear if state.long_prompts else row.group_below_tokens))


def clamped(value: float, knob: Knob) -> float:
    """Inside the knob's own bounds."""
    low = value if knob.minimum is None else max(value, knob.minimum)
    return low if knob.maximum is None else min(low, knob.maximum)


def _abstain(name: str, knob: Knob | None, why: str) -> Proposal:
    if knob is None or knob.value is None:
        why = "the engine has no such knob to steer, or has not answered"
    return Proposal(POLICY, name, None, Reason.ABSTAIN_UNKNOWN, f"No proposal: {why}.")
