"""What came of a change, and which settings have proved bad.

Belongs here: the verdict as a value. Never: how it is reached (policies/judgement.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """What a change did, at the same load."""

    BETTER = "better"
    NEUTRAL = "neutral"
    WORSE = "worse"
    UNCLEAR = "unclear"
    """Too little that can be compared."""
    SUPERSEDED = "superseded"
    """The next change of the knob came before this one could be judged; that one is judged for both."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`undo`: it was worse than an objective allows, so the value before is wanted back."""

    verdict: Verdict
    sentence: str
    numbers: Mapping[str, float | str | None] = field(default_factory=dict)
    """What the verdict rests on, by name; see docs/outcomes.md."""
    undo: bool = False


@dataclass(frozen=True, slots=True)
class Refuted:
    """A value of a knob that broke an objective at the load there is now, on this boot of the engine.

    Every value at it or past it, seen from `instead_of`, is refuted with it.
    """

    knob: str
    value: float
    instead_of: float
    """What was in force before, and was better."""
    until_s: float
    """The View's monotonic seconds."""

    def covers(self, knob: str, value: float) -> bool:
        """Whether `value` is one of the refuted."""
        up = self.value > self.instead_of
        return knob == self.knob and (value >= self.value if up else value <= self.value)
