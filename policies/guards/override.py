"""An operator's word on one knob, for a limited time. It goes before every policy but an emergency.

Belongs here: the override as a value and as a proposal. Never: how an operator gives it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from domain.decision import Priority, Proposal, Reason
from domain.view import View
from policies.trial import shown

OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Override:
    """`until_s`: the View's monotonic seconds; from then on the policies go on from the value in force."""

    knob: str
    value: float
    until_s: float


def proposals(overrides: Iterable[Override], view: View) -> tuple[Proposal, ...]:
    """One for each override that still holds."""
    return tuple(_proposal(one, one.until_s - view.now_s) for one in overrides if one.until_s > view.now_s)


def _proposal(override: Override, left_s: float) -> Proposal:
    sentence = f"The operator set {override.knob} to {shown(override.value)}, for another {left_s:.0f} s."
    return Proposal(
        OPERATOR, override.knob, override.value, Reason.OPERATOR_OVERRIDE, sentence, priority=Priority.OPERATOR
    )
