"""A condition that begins at one level and ends at another, each only once it has lasted.

Belongs here: the counting of time that is really known. Never: what the condition is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Held:
    """Plain values. `lasted_s` is what has been seen of the begin (or, while `on`, of the end) so far."""

    on: bool = False
    lasted_s: float = 0.0
    seen_s: float | None = None
    """When it was seen last; None: the view before did not show it, or nothing is known of it."""

    @property
    def coming(self) -> bool:
        """Seen, but not for long enough yet."""
        return not self.on and (self.seen_s is not None or self.lasted_s > 0.0)


OFF = Held()
_ON = Held(on=True)


@dataclass(frozen=True, slots=True)
class Waits:
    """How long the begin and the end have to last."""

    on_s: float = 0.0
    off_s: float = 0.0


def step(held: Held, now_s: float, begins: bool | None, ends: bool | None, waits: Waits) -> Held:
    """The next state. Unknown neither begins nor ends anything, and the time it lasts is not counted.

    No time between two views counts for more than half of what is needed: a loop that stood still has seen nothing.
    """
    told = ends if held.on else begins
    if told is None:
        return held if held.seen_s is None else replace(held, seen_s=None)
    if not told:
        return _ON if held.on else OFF
    needed_s = waits.off_s if held.on else waits.on_s
    since_s = 0.0 if held.seen_s is None else max(0.0, now_s - held.seen_s)
    lasted_s = held.lasted_s + min(since_s, needed_s / 2)
    return Held(on=not held.on) if lasted_s >= needed_s else Held(held.on, lasted_s, now_s)
