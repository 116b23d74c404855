"""Purging the engine's prefix cache by hand.

Belongs here: checking what is asked, saying what it will do and what it did. Never: the emergency's purge
(policies/emergency_purge), what the plugin does.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.loop import Loop
from controller.operations.audit import Audit, Caller
from controller.operations.permission import engine_silent, forbidden
from controller.operations.refusal import Kind, Refused
from domain.decision import Decision, Priority, Proposal, Reason, Status
from domain.knobs import PREEMPT, PURGE
from domain.runtime import EngineRuntime
from policies.guards.override import OPERATOR

DEFAULT_RATIO = 0.5
MOST_PREEMPTED = 10_000
DOING = "purge the cache"


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """What a purge would do now, in sentences for a confirmation; `refusal`: why it cannot be done."""

    ratio: float
    preempt: int
    effects: tuple[str, ...]
    refusal: str | None


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """What it came to: one decision for the purge, one for the preemption where that was asked for."""

    decisions: tuple[Decision, ...]
    sentence: str


class Purge:
    """One for the daemon's life."""

    def __init__(self, loop: Loop, audit: Audit) -> None:
        self._loop = loop
        self._audit = audit

    def plan(self, ratio: float = DEFAULT_RATIO, preempt: int = 0) -> PurgePlan:
        """Changes nothing. Raises Refused (INVALID)."""
        _check(ratio, preempt)
        try:
            runtime = self._possible()
        except Refused as error:
            return PurgePlan(ratio, preempt, (), str(error))
        return PurgePlan(ratio, preempt, tuple(_effects(runtime, ratio, preempt)), None)

    async def run(self, who: Caller, ratio: float = DEFAULT_RATIO, preempt: int = 0, comment: str = "") -> PurgeResult:
        """Evict that share (0 to 1) of the free cached blocks of each engine core, and put back so many running
        requests of each. Never repeated by itself. Raises Refused.
        """
        asked = {"ratio": ratio, "preempt": preempt, "comment": comment}
        async with self._audit.entry(who, "purge", "the prefix cache", asked):
            _check(ratio, preempt)
            self._possible()
            order = await self._loop.order(_proposals(ratio, preempt, who.actor))
            if order.decisions is None:
                raise engine_silent(self._loop, DOING)
            ours = tuple(one for one in order.decisions if one.policy == OPERATOR)
            if not ours:
                rival = ", ".join(sorted({one.policy for one in order.decisions})) or "another policy"
                reason = f"{rival} goes first at this moment and does what it decided"
                raise Refused(Kind.CONFLICT, DOING, reason, "look at its decision, then ask again")
            for one in ours:
                if why := _refused(one):
                    raise Refused(Kind.CONFLICT, DOING, why, "nothing was evicted; look at the reason, then ask again")
            return PurgeResult(ours, _sentence(ours))

    def _possible(self) -> EngineRuntime:
        """An engine that answers, is awake and is this daemon's to change."""
        runtime, view = self._loop.observed.runtime, self._loop.observed.view
        if runtime is None:
            raise engine_silent(self._loop, DOING)
        if (why := forbidden(self._loop)) is not None:
            raise Refused(Kind.CONFLICT, DOING, why.reason, why.remedy)
        if view is not None and view.asleep:
            raise Refused(Kind.CONFLICT, DOING, "the engine is asleep", "wake it up first")
        return runtime


def _check(ratio: float, preempt: int) -> None:
    if not 0.0 <= ratio <= 1.0:
        raise Refused(Kind.INVALID, DOING, f"ratio = {ratio:g} is not within 0 and 1", "send a share", "ratio")
    if not 0 <= preempt <= MOST_PREEMPTED:
        reason = f"preempt = {preempt} is not within 0 and {MOST_PREEMPTED}"
        raise Refused(Kind.INVALID, DOING, reason, "send a number of requests", "preempt")
    if not ratio and not preempt:
        raise Refused(Kind.INVALID, DOING, "a ratio of 0 evicts nothing", "send a share above 0", "ratio")


def _proposals(ratio: float, preempt: int, actor: str) -> list[Proposal]:
    found = []
    if ratio:
        said = f"The operator ({actor}) asked to evict {ratio:.0%} of the free cached blocks."
        found.append(Proposal(OPERATOR, PURGE, ratio, Reason.OPERATOR_OVERRIDE, said, priority=Priority.OPERATOR))
    if preempt:
        said = f"The operator ({actor}) asked to preempt the newest {preempt} running requests of each engine core."
        found.append(
            Proposal(OPERATOR, PREEMPT, float(preempt), Reason.OPERATOR_OVERRIDE, said, priority=Priority.OPERATOR)
        )
    return found


def _effects(runtime: EngineRuntime, ratio: float, preempt: int) -> list[str]:
    cores = len(runtime.cores)
    each = "the engine" if cores == 1 else f"each of {cores} engine cores"
    found = []
    if ratio:
        found.append(
            f"Evicts {ratio:.0%} of the free cached blocks of {each}, coldest first. Running requests keep theirs; "
            "prompts that would have hit what is evicted are computed again."
        )
        found.append("The evicted cache does not come back: there is no undo.")
    if preempt:
        most = max(core.running for core in runtime.cores)
        found.append(
            f"Puts back up to {preempt} of the newest running requests of {each} ({most} run now) to the front of the "
            "queue; they are computed anew, no token is lost, and max_num_seqs goes down to what then runs."
        )
    return found


def _refused(decision: Decision) -> str | None:
    """Why nothing was done, as far as that is sure."""
    if decision.status is Status.RECORDED:
        return "; ".join(decision.guards) or "a guard withheld it"
    if decision.status is Status.FAILED and decision.observed == 0.0:
        return decision.error or "the engine refused it"
    return None


def _sentence(decisions: tuple[Decision, ...]) -> str:
    return " ".join(_said(one) for one in decisions)


def _said(decision: Decision) -> str:
    what = "The purge" if decision.knob == PURGE else "The preemption"
    if decision.status is Status.APPLIED and decision.observed is not None:
        did = f"{decision.observed:.0%}" if decision.knob == PURGE else f"{decision.observed:g} requests"
        return f"{what} was done: {did} of each engine core."
    return f"{what}: {decision.status.value}: {decision.error or 'nothing is known of it'}."
