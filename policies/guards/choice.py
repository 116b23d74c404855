"""Which of several proposals for one knob counts, and where a knob's bounds put it.

Belongs here: priorities, caution, the envelope, the cap beside the token budget. Never: whether it may be carried out
now (checks).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from domain.decision import Priority, Proposal
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS, PREEMPT, PURGE, TRAITS, loosens, tightens
from domain.runtime import EngineRuntime, Knob
from domain.view import View

ACTS = frozenset({PURGE, PREEMPT})
"""Done, not set: nothing in the engine reads back as their value."""
MOST_TOKENS_EACH = 16
"""A decode with its drafts has not more tokens; a floor beyond that comes of something else."""
RUNG = 8


def in_force(view: View, knob: str) -> float | None:
    """The value that a proposal starts from: nothing is being purged unless somebody asks for it."""
    if view.runtime is None:
        return None
    if knob in ACTS:
        return 0.0
    found = view.runtime.knob(knob)
    return found.value if found is not None else None


def priority_of(proposal: Proposal, old: float | None) -> Priority:
    """The proposal's own, else by direction."""
    if proposal.priority is not None:
        return proposal.priority
    wanted = proposal.wanted
    if wanted is None or old is None or wanted == old or math.isnan(wanted):
        return Priority.HOLD
    if tightens(proposal.knob, old, wanted):
        return Priority.SHRINK
    return Priority.GROW if loosens(proposal.knob, old, wanted) else Priority.EXPLORE


def choose(view: View, proposals: Iterable[Proposal]) -> list[tuple[Priority, Proposal]]:
    """One for each knob, the more urgent ones first; among equals the most cautious value, then the first named."""
    best: dict[str, tuple[tuple[int, float], Proposal]] = {}
    for proposal in proposals:
        rank = (int(priority_of(proposal, in_force(view, proposal.knob))), _risk(proposal))
        rival = best.get(proposal.knob)
        if rival is None or rank < rival[0]:
            best[proposal.knob] = rank, proposal
    chosen = [(Priority(rank[0]), proposal) for rank, proposal in best.values()]
    return sorted(chosen, key=lambda one: one[0])


def _risk(proposal: Proposal) -> float:
    if proposal.wanted is None or math.isnan(proposal.wanted):
        return math.inf
    return proposal.wanted * TRAITS[proposal.knob].loosens.value


def bounded(wanted: float, knob: Knob | None, name: str, notes: list[str]) -> float:
    """Inside the engine's bounds; what was cut off is noted. The start-up value is always inside."""
    if knob is None:  # an act
        low, high = 0.0, 1.0 if name == PURGE else math.inf
    elif wanted == knob.startup:
        return wanted
    else:
        low = -math.inf if knob.minimum is None else knob.minimum
        high = math.inf if knob.maximum is None else knob.maximum
        if math.isinf(wanted) and knob.startup is not None:  # no limit is none beyond the start-up one
            high = knob.startup
    target = min(max(wanted, low), high)
    if target != wanted:
        notes.append(f"clamped from {wanted:g} to {target:g}: the envelope of {name} is {low:g} to {high:g}")
    return target


def beside(
    name: str, old: float, target: float, runtime: EngineRuntime | None, planned: Mapping[str, float], notes: list[str]
) -> float:
    """The cap and the token budget inside each other: the engine refuses a cap whose requests would not all get a
    token a step, and with it all that the call names. `planned`: what was let through at this tick.
    """
    budget = runtime.knob(MAX_NUM_BATCHED_TOKENS) if runtime is not None else None
    in_force_cap = runtime.knob(MAX_NUM_SEQS) if runtime is not None else None
    if runtime is None or budget is None or budget.value is None:
        return target
    if name == MAX_NUM_SEQS and target > old:
        tokens = planned.get(MAX_NUM_BATCHED_TOKENS, budget.value)
        most = math.floor(tokens / _tokens_each(runtime, budget))
        if target <= most or tokens == budget.startup:  # beside the start-up budget the engine allows any cap
            return target
        most = max(math.floor(old), RUNG * (most // RUNG) if most > RUNG else most)
        notes.append(f"clamped from {target:g} to {most:g}: a step of {tokens:g} tokens holds no more requests")
        return most
    cap = planned.get(MAX_NUM_SEQS, in_force_cap.value if in_force_cap is not None else None)
    if name == MAX_NUM_BATCHED_TOKENS and target < old and cap is not None:
        least = cap * _tokens_each(runtime, budget)
        # A cap that is beyond the budget already is somebody else's doing: a cut is not stopped by it.
        if target < least <= old or (target < least and MAX_NUM_SEQS in planned):
            least = min(old, least)
            notes.append(f"clamped from {target:g} to {least:g}: a cap of {cap:g} needs that many tokens a step")
            return least
    return target


def _tokens_each(runtime: EngineRuntime, budget: Knob) -> float:
    """Tokens that the engine's floor of the budget counts for one request: one, and one more for each draft token."""
    counted = max((_counted(core.knobs.get(MAX_NUM_SEQS), core.running) for core in runtime.cores), default=0)
    each = (budget.minimum or 0) / counted if counted > 0 else 1.0
    return each if each.is_integer() and 1 <= each <= MOST_TOKENS_EACH else 1.0


def _counted(cap: Knob | None, running: int) -> float:
    return max(cap.value if cap is not None and cap.value is not None else 0, running)
