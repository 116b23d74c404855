"""From proposals to one decision per knob.

Belongs here: what the guards ruled, written as decisions, and what they remember between ticks. Never: a guard's rule
(policies/guards), a call to the engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from domain.decision import Decision, Mode, Proposal, Status
from domain.outcome import Refuted
from domain.view import View
from policies import guards
from policies.guards import GuardSettings, GuardState, Override, Ruling

ACTING_MODES = frozenset({Mode.AUTO, Mode.STATIC})


@dataclass(slots=True)
class Arbiter:
    """The guards with their memory. It outlives a change of mode: what was changed a moment ago still rests."""

    tick_s: float
    settings: GuardSettings = field(default_factory=GuardSettings)
    state: GuardState = field(default_factory=GuardState)
    withdrew: bool = False
    """The last `decide` came after a `withdraw`, which a replay has to know."""
    overrides: tuple[Override, ...] = ()
    """Those that still hold, one for a knob at most."""
    _withdrawn: bool = False

    def decide(
        self,
        mode: Mode,
        at: datetime,
        view: View,
        proposals: Iterable[Proposal],
        refuted: frozenset[Refuted] = frozenset(),
    ) -> list[Decision]:
        """One decision for each knob that was proposed, the more urgent first."""
        self.withdrew, self._withdrawn = self._withdrawn, False
        self.overrides = tuple(one for one in self.overrides if one.until_s > view.now_s)
        rules = guards.Rules(mode, self.tick_s, self.settings, refuted, self.overrides)
        self.state, rulings = guards.rule(self.state, view, proposals, rules)
        return [_decision(mode, at, view, ruling) for ruling in rulings]

    def withdraw(self) -> None:
        """The changes of the last `decide` were not sent: nothing was tried."""
        self.state = guards.withdraw(self.state)
        self._withdrawn = True

    def override(self, override: Override) -> None:
        """Take an operator's word on a knob, in place of the one before."""
        self.lift(override.knob)
        self.overrides = (*self.overrides, override)

    def lift(self, knob: str) -> None:
        """End an override before its time."""
        self.overrides = tuple(one for one in self.overrides if one.knob != knob)


def _decision(mode: Mode, at: datetime, view: View, ruling: Ruling) -> Decision:
    proposal, requested = ruling.proposal, ruling.requested
    status = Status.RECORDED if ruling.withheld else Status.HOLD if requested is None else Status.INTENDED
    return Decision(
        at=at,
        mode=mode,
        policy=proposal.policy,
        knob=proposal.knob,
        old=ruling.old,
        wanted=proposal.wanted,
        requested=requested,
        observed=ruling.old,
        status=status,
        reason=proposal.reason,
        sentence=proposal.sentence,
        evidence=proposal.evidence,
        guards=ruling.notes,
        boot_id=view.runtime.boot_id if view.runtime else None,
    )
