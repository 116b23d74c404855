"""An engine without work to speak of is left as it is: no starting point, no row, no prediction pays off there.

Belongs here: when that is known, and which changes wait for work. Never: a way back (from an emergency, an OOM, a
bounded queue), which idleness is the best time for.
"""

from __future__ import annotations

from dataclasses import replace

from domain.decision import Proposal, Reason
from domain.view import View

FEW = 2.0
"""Fewer requests than this at a time are not steered: none of them keeps another from anything."""
WAITS_FOR_WORK = frozenset(
    {
        Reason.START_PROFILE,
        Reason.SET_UP,
        Reason.TABLE_ROW,
        Reason.SHRINK_PREDICTED,
        Reason.GROW_PREDICTED,
        Reason.LIMIT_LONG_PREFILL,
    }
)
"""Changes that no measurement asks for."""


def idle(view: View) -> bool:
    """Known to be idle: nobody waits for room, and steps hold fewer than two requests. Unknown is not idle."""
    at_once = view.batch_size_current if view.batch_size_current is not None else view.running
    return view.demand == 0 and at_once is not None and at_once < FEW


def rest(view: View, proposal: Proposal) -> Proposal:
    """The proposal; while the engine is idle, a hold in place of a change that can wait for work."""
    knob = view.knob(proposal.knob)
    if proposal.reason not in WAITS_FOR_WORK or knob is None or knob.value is None or not idle(view):
        return proposal
    sentence = f"Holding {knob.value:g} while there is next to no work. With work: {proposal.sentence}"
    return replace(proposal, wanted=knob.value, reason=Reason.HOLD_NO_DEMAND, sentence=sentence)
