"""Changes that are on trial together.

Belongs here: what a change is, how those that follow each other become one comparison. Never: when it is concluded
(policies/outcomes.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from domain.knobs import NO_LIMIT, TRAITS
from domain.outcome import Outcome, Verdict
from policies.evidence import Tick

MOST_WRITTEN_OUT = 1e15
"""No knob has a larger value, and a float no longer tells whole numbers apart much above."""
USUAL_DELAY_S = 10.0
"""For a knob that domain.knobs says nothing of."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change that took effect. `reversible`: it may be undone when it proves bad."""

    uid: str
    """Of the decision that made it."""
    knob: str
    old: float
    new: float
    reversible: bool = True


@dataclass(frozen=True, slots=True)
class Trial:
    """Changes that are judged together: nothing was measured between them."""

    changes: tuple[Change, ...]
    """At most one a knob; `old` is the value that the ticks before were measured with."""
    began_s: float
    """When the last of them was made."""
    settled_s: float
    """From here on what is measured speaks of them."""
    before: tuple[Tick, ...]
    before_until_s: float
    """When the first of them was made."""


def superseded(by: Change, after_s: float) -> Outcome:
    """The verdict on a change whose knob moved again too soon."""
    sentence = (
        f"Superseded after {after_s:.0f} s by the change of {by.knob} {shown(by.old)} -> {shown(by.new)}, "
        "which is judged for both."
    )
    return Outcome(Verdict.SUPERSEDED, sentence, {"by": by.uid, "after_s": after_s})


def joined(earlier: Sequence[Change], later: Sequence[Change]) -> tuple[Change, ...]:
    """One a knob, from the value before the first to that of the last."""
    joint: dict[str, Change] = {one.knob: one for one in earlier}
    for one in later:
        first = joint.get(one.knob)
        joint[one.knob] = (
            one if first is None else replace(one, old=first.old, reversible=one.reversible and first.reversible)
        )
    return tuple(joint.values())


def delay_s(knob: str) -> float:
    """How long a change of this knob needs before what is measured speaks of it."""
    traits = TRAITS.get(knob)
    return traits.effect_delay_s if traits is not None else USUAL_DELAY_S


def shown(value: float) -> str:
    """A value as a sentence names it: whole numbers are written out, 1048576 and not 1.04858e+06."""
    if value == NO_LIMIT:
        return "no limit"
    return f"{value:.0f}" if abs(value) < MOST_WRITTEN_OUT and value == round(value) else f"{value:g}"


def finite(value: float) -> float | str:
    """A value as numbers that are stored name it."""
    return shown(value) if value == NO_LIMIT else value
