"""From proposals to one decision per knob.

Belongs here: what stands between a policy and the engine whatever the policy: mode, bounds, cooldown. Never: a rule
of a policy, a call to the engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from domain.decision import Decision, Mode, Proposal, Status
from domain.runtime import Knob
from domain.view import View

COOLDOWN_TICKS = 1
ACTING_MODES = frozenset({Mode.AUTO, Mode.STATIC})


@dataclass(slots=True)
class Arbiter:
    """Remembers when each knob last moved. Everything else comes in as an argument."""

    cooldown_s: float
    _moved_s: dict[str, float] = field(default_factory=dict)

    def decide(self, mode: Mode, at: datetime, view: View, proposals: Iterable[Proposal]) -> list[Decision]:
        """One decision per knob; where two policies want different values the lower one, the safer, wins."""
        chosen: dict[str, Proposal] = {}
        for proposal in proposals:
            rival = chosen.get(proposal.knob)
            if rival is None or _risk(proposal) < _risk(rival):
                chosen[proposal.knob] = proposal
        return [self._decide_one(mode, at, view, proposal) for proposal in chosen.values()]

    def moved(self, knob: str, now_s: float) -> None:
        """A knob was changed just now."""
        self._moved_s[knob] = now_s

    def _decide_one(self, mode: Mode, at: datetime, view: View, proposal: Proposal) -> Decision:
        knob = view.runtime.knob(proposal.knob) if view.runtime else None
        old = knob.value if knob else None
        guards: list[str] = []
        requested = None
        if proposal.wanted is not None and knob is not None and old is not None:
            target = _inside_envelope(proposal.wanted, knob, guards)
            requested = target if target != old else None
        if requested is not None:
            guards += self._withheld(mode, view.now_s, proposal.knob)
        status = Status.HOLD
        if requested is not None:
            permitted = not any(guard.startswith("withheld") for guard in guards)
            status = Status.INTENDED if permitted else Status.RECORDED
            requested = requested if permitted else None
        return Decision(
            at=at,
            mode=mode,
            policy=proposal.policy,
            knob=proposal.knob,
            old=old,
            wanted=proposal.wanted,
            requested=requested,
            observed=old,
            status=status,
            reason=proposal.reason,
            sentence=proposal.sentence,
            evidence=proposal.evidence,
            guards=tuple(guards),
            boot_id=view.runtime.boot_id if view.runtime else None,
        )

    def _withheld(self, mode: Mode, now_s: float, knob: str) -> list[str]:
        if mode not in ACTING_MODES:
            return [f"withheld: mode {mode} changes nothing"]
        since_s = now_s - self._moved_s.get(knob, -math.inf)
        if since_s < self.cooldown_s:
            return [f"withheld: {knob} moved {since_s:.1f} s ago, cooldown {self.cooldown_s:.1f} s"]
        return []


def _risk(proposal: Proposal) -> float:
    return math.inf if proposal.wanted is None else proposal.wanted


def _inside_envelope(wanted: float, knob: Knob, guards: list[str]) -> float:
    low = -math.inf if knob.minimum is None else knob.minimum
    high = math.inf if knob.maximum is None else knob.maximum
    target = min(max(wanted, low), high)
    if target != wanted:
        guards.append(f"clamped from {wanted:g} to {target:g}: the envelope of {knob.name} is {low:g} to {high:g}")
    return target
