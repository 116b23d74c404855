"""What a part is: one knob as one API process carries it.

Here: the protocol and what all parts are told. Never here: a particular knob.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Offer:
    """How far this API process carries the knob. `startup` None: vLLM has no such setting switched on."""

    level: str = "native"
    reason: str | None = None
    startup: int | None = None
    low: int = 0
    high: int = 0

    def as_wire(self, failed: bool = False) -> dict[str, Any]:
        """As the engine core reads it."""
        return {
            "support": self.level,
            "reason": self.reason,
            "startup": self.startup,
            "min": self.low,
            "max": self.high,
            "failed": failed,
        }


def off(reason: str) -> Offer:
    """This API process does not have it, because."""
    return Offer(level="off", reason=reason)


@dataclass(frozen=True)
class Admission:
    """What one engine core says of its admission; `bound`: how many it holds, where that is fewer than the cap."""

    cap: int
    running: int
    bound: int | None = None

    @property
    def room(self) -> int:
        """How many are in the engine when the next one has to wait."""
        return max(self.running, self.cap if self.bound is None else min(self.cap, self.bound))


@dataclass(frozen=True)
class Situation:
    """What a part may need beside the wanted value."""

    engines: Sequence[Admission] = ()
    api_processes: int = 1
    """How many API processes have reported to the engine cores, this one included."""


class Part(Protocol):
    """One knob in this process. Any exception of `offer` or `apply` switches it off for good, after a `release`."""

    name: str

    def offer(self) -> Offer:
        """How far the knob is carried now."""

    def apply(self, value: int | None, situation: Situation) -> None:
        """Put the value in force, None for the start-up value. Called once a second, changed or not."""

    def release(self) -> None:
        """Back to the start-up value, whatever happened before."""


Wanted = Mapping[str, "int | None"]
"""Wanted value by knob."""
