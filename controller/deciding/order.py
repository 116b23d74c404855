"""From one picture of the engine to decisions: capacity, diagnosis, policies, arbiter.

Nothing here waits or reads a clock: the same views give the same decisions, so a recorded history can be replayed with
it. Belongs here: that order, and a policy that fails. Never: a rule, carrying anything out.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from controller.deciding.arbiter import Arbiter
from domain.decision import Decision, Mode, Priority, Proposal
from domain.diagnosis import Diagnosis
from domain.knobs import TRAITS, loosens
from domain.outcome import Refuted
from domain.view import View
from policies import capacity, emergency_purge, registry
from policies.base import Policy
from policies.capacity import CapacityState
from policies.diagnosis import DiagnosisState, diagnose
from policies.emergency_purge import EmergencyState
from policies.registry import PoliciesSettings

logger = logging.getLogger(__name__)

EMERGENCY = "emergency_purge"
MOST_FAILURES = 3
"""A policy of somebody else that fails so often is taken out until the settings are read again."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One tick's. `view` is the one that was given, with the capacity model filled in."""

    view: View
    diagnoses: tuple[Diagnosis, ...]
    told: Mapping[str, float]
    """What the policies tell the alerts of themselves (policies.alert_thresholds.CHECKS)."""
    decisions: list[Decision]


class Deciding:
    """The policies of one mode with their states, before an arbiter that outlives them."""

    def __init__(
        self, settings: PoliciesSettings, mode: Mode, arbiter: Arbiter, policies: Iterable[Policy] | None = None
    ) -> None:
        """`policies` None: those that the mode runs."""
        self.settings = settings
        self.mode = mode
        self.arbiter = arbiter
        self._capacity = CapacityState()
        self._diagnosis = DiagnosisState()
        self._emergency: EmergencyState | None = None
        """That of the policies before, while none of these carries it on."""
        self._failures: Counter[str] = Counter()
        self._guests: frozenset[str] = frozenset()
        self.policies = tuple(policies) if policies is not None else self._built()
        self._states: dict[str, Any] = {policy.name: policy.initial_state() for policy in self.policies}

    def adopt(self, other: Deciding) -> None:
        """Take over what was learned of the engine and does not depend on the mode, and an emergency: whatever ran in
        between, what it has cut is to come back.
        """
        self._capacity, self._diagnosis = other._capacity, other._diagnosis
        self._emergency = other._states.get(EMERGENCY, other._emergency)
        if EMERGENCY in self._states and self._emergency is not None:
            self._states[EMERGENCY] = emergency_purge.interrupted(self._emergency)

    def decide(
        self,
        at: datetime,
        view: View,
        refuted: frozenset[Refuted] = frozenset(),
        further: Iterable[Proposal] = (),
        asked: str | None = None,
    ) -> Decided:
        """One view further. `refuted` and `further`: what outcomes have proved bad, and proposals to undo it. `asked`:
        who asks from outside for the emergency measures.

        An undo goes before the policies; one that lets more in waits until an emergency is over.
        """
        table = self.settings
        self._capacity = capacity.update(self._capacity, view, table.capacity)
        view = replace(view, capacity=capacity.model(self._capacity, table.capacity))
        factor = table.batch_resize.growth_factor
        self._diagnosis, diagnoses = diagnose(self._diagnosis, view, table.diagnosis, factor)
        if asked is not None and EMERGENCY in self._states:
            self._states[EMERGENCY] = emergency_purge.ask(self._states[EMERGENCY], asked)
        proposals, state = self._propose(view), self._states.get(EMERGENCY)
        emergency, unrelieved = emergency_purge.acting(state), emergency_purge.unrelieved(state)
        proposals += (one for one in further if not (emergency and _lets_more_in(view, one)))
        decisions = self.arbiter.decide(self.mode, at, view, proposals, refuted)
        told = {"emergency": float(emergency), "not_relieved": float(unrelieved)}
        named = tuple(f"{one.cause}: {one.sentence}" for one in diagnoses)
        if named:
            decisions = [replace(one, diagnoses=named) for one in decisions]
        return Decided(view, diagnoses, told, decisions)

    def _built(self) -> tuple[Policy, ...]:
        guests, broken = registry.build_third_party(self.settings, self.mode)
        for name, why in broken.items():
            logger.error("policy %s is left out: cannot start it: %s", name, why)
        ready = []
        for guest in guests:
            try:
                guest.initial_state()
            except Exception:  # somebody else's code
                logger.exception("policy %s is left out: it has no state to start from", guest.name)
            else:
                ready.append(guest)
        self._guests = frozenset(guest.name for guest in ready)
        return (*registry.build(self.settings, self.mode), *ready)

    def _propose(self, view: View) -> list[Proposal]:
        proposals: list[Proposal] = []
        for policy in self.policies:
            try:
                state, made = policy.decide(self._states[policy.name], view)
                if policy.name in self._guests:
                    made = tuple(_of_a_guest(policy.name, proposal) for proposal in made)
            except Exception:  # one policy must not silence the others
                self._failed(policy.name)
            else:
                self._states[policy.name] = state
                proposals += made
                if policy.name not in self._guests:
                    del self._failures[policy.name]
        return proposals

    def _failed(self, name: str) -> None:
        self._failures[name] += 1
        if name not in self._guests:
            if self._failures[name] == 1:  # said once until it works again
                logger.exception("policy %s failed, it proposes nothing", name)
            return
        if self._failures[name] < MOST_FAILURES:
            logger.exception("policy %s failed (%d of %d)", name, self._failures[name], MOST_FAILURES)
            return
        self.policies = tuple(policy for policy in self.policies if policy.name != name)
        logger.exception("policy %s failed %d times, it is taken out", name, MOST_FAILURES)


def _lets_more_in(view: View, proposal: Proposal) -> bool:
    knob = view.runtime.knob(proposal.knob) if view.runtime is not None else None
    if knob is None or knob.value is None or proposal.wanted is None:
        return False
    return loosens(proposal.knob, knob.value, proposal.wanted)


def _of_a_guest(name: str, proposal: Proposal) -> Proposal:
    """What somebody else's policy may ask for. Raises ValueError or TypeError."""
    if not isinstance(proposal, Proposal):
        raise TypeError(f"a policy answers Proposals, not {type(proposal).__name__}")
    if proposal.knob not in TRAITS:
        raise ValueError(f"there is no knob {proposal.knob}")
    urgent = proposal.priority is not None and proposal.priority <= Priority.ROLLBACK
    return replace(proposal, policy=name, priority=None if urgent else proposal.priority)
