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

BACK_OFF_MAX_S = 300.0
ACTING_MODES = frozenset({Mode.AUTO, Mode.STATIC})


@dataclass(slots=True)
class Arbiter:
    """Remembers until when each knob rests. Everything else comes in as an argument."""

    tick_s: float
    _rests_until_s: dict[str, float] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)

    def decide(self, mode: Mode, at: datetime, view: View, proposals: Iterable[Proposal]) -> list[Decision]:
        """One decision per knob; where two policies want different values the lower one, the safer, wins."""
        chosen: dict[str, Proposal] = {}
        for proposal in proposals:
            rival = chosen.get(proposal.knob)
            if rival is None or _risk(proposal) < _risk(rival):
                chosen[proposal.knob] = proposal
        return [self._decide_one(mode, at, view, proposal) for proposal in chosen.values()]

    def tried(self, knob: str, now_s: float, *, took_effect: bool) -> None:
        """A change was sent. One that did not take effect is tried again later and later, up to every five minutes."""
        self._failures[knob] = 0 if took_effect else self._failures.get(knob, 0) + 1
        rest_s = 0.9 * self.tick_s * 2.0 ** min(self._failures[knob], 16)
        self._rests_until_s[knob] = now_s + min(rest_s, max(BACK_OFF_MAX_S, self.tick_s))

    def _decide_one(self, mode: Mode, at: datetime, view: View, proposal: Proposal) -> Decision:
        knob = view.runtime.knob(proposal.knob) if view.runtime else None
        old = knob.value if knob else None
        guards: list[str] = []
        requested = None
        if proposal.wanted is not None and knob is not None and old is not None:
            target = _inside_envelope(proposal.wanted, knob, guards)
            requested = target if target != old or knob.disagreeing else None
        status = Status.HOLD if requested is None else Status.INTENDED
        withheld = self._withheld(mode, view.now_s, proposal.knob) if requested is not None else None
        if withheld is not None:
            guards.append(withheld)
            requested, status = None, Status.RECORDED
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

    def _withheld(self, mode: Mode, now_s: float, knob: str) -> str | None:
        if mode not in ACTING_MODES:
            return f"withheld: mode {mode} changes nothing"
        if now_s < self._rests_until_s.get(knob, -math.inf):
            failures = self._failures.get(knob, 0)
            return f"withheld: {knob} rests" + (f" after {failures} changes without effect" if failures else "")
        return None


def _risk(proposal: Proposal) -> float:
    return math.inf if proposal.wanted is None else proposal.wanted


def _inside_envelope(wanted: float, knob: Knob, guards: list[str]) -> float:
    low = -math.inf if knob.minimum is None else knob.minimum
    high = math.inf if knob.maximum is None else knob.maximum
    target = min(max(wanted, low), high)
    if target != wanted:
        guards.append(f"clamped from {wanted:g} to {target:g}: the envelope of {knob.name} is {low:g} to {high:g}")
    return target
