"""What time it is, for a history that a wrong clock must not hurt.

The wall clock may step: NTP sets it right, a battery is empty, a virtual machine wakes. Deleting by it what is too old
could then delete everything, and taking what is dated after now for wrong could take everything away. So a time is
carried on from the last one that was believed by the monotonic clock, and a wall clock that leapt away from it is
believed only after it has stood there for a day of running.

Belongs here: that. Never: reading a clock, deleting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

TOLERANCE = timedelta(hours=1)
"""Clocks are set by less than this in daily life, and a restart takes less."""
BELIEVED_AFTER_S = 24 * 3600.0
"""Seconds of running after which a clock that leapt is believed."""


@dataclass(frozen=True, slots=True)
class Times:
    """Now, at the earliest and at the latest: the same while the wall clock is believed."""

    earliest: datetime
    """What is too old is told by this one."""
    latest: datetime
    """What is dated ahead is told by this one."""
    problem: str | None = None
    """Why they differ, as a sentence."""

    @property
    def limit(self) -> datetime:
        """A row of a later time was written by a wrong clock."""
        return self.latest + TOLERANCE


class Timeline:
    """Asked every now and then by one daemon. It outlives it through `state` and `of`."""

    def __init__(self, believed: datetime, leap: timedelta | None = None, stood_s: float = 0.0) -> None:
        self._believed = believed
        self._leap = leap
        self._stood_s = stood_s
        self._monotonic_s: float | None = None

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Timeline:
        """As it was when `state` was kept. Raises KeyError, TypeError or ValueError at something else."""
        leap_s = state["leap_s"]
        return cls(
            datetime.fromisoformat(state["believed"]),
            None if leap_s is None else timedelta(seconds=leap_s),
            float(state["stood_s"]),
        )

    @property
    def state(self) -> Mapping[str, Any]:
        """What to keep over a restart."""
        return {
            "believed": self._believed.isoformat(),
            "leap_s": None if self._leap is None else self._leap.total_seconds(),
            "stood_s": self._stood_s,
        }

    def look(self, wall: datetime, monotonic_s: float) -> Times:
        """Now, by what both clocks say and what they said before."""
        running = self._monotonic_s is not None
        elapsed_s = monotonic_s - self._monotonic_s if self._monotonic_s is not None else 0.0
        self._monotonic_s = monotonic_s
        self._believed += timedelta(seconds=elapsed_s)
        leap = wall - self._believed
        if abs(leap) <= TOLERANCE:
            self._believe(wall)
        elif self._is_another(leap, running):
            self._leap, self._stood_s = leap, 0.0
        else:
            self._leap, self._stood_s = (self._leap if running else leap), self._stood_s + elapsed_s
            if self._stood_s >= BELIEVED_AFTER_S:
                self._believe(wall)
        return Times(min(wall, self._believed), max(wall, self._believed), self._problem())

    def _believe(self, wall: datetime) -> None:
        self._believed, self._leap, self._stood_s = wall, None, 0.0

    def _is_another(self, leap: timedelta, running: bool) -> bool:
        """Over a restart the same leap has grown by as long as the daemon was away, so there only its sign tells."""
        if self._leap is None:
            return True
        if (leap > timedelta()) != (self._leap > timedelta()):
            return True
        return running and abs(leap - self._leap) > TOLERANCE

    def _problem(self) -> str | None:
        if self._leap is None:
            return None
        hours = abs(self._leap).total_seconds() / 3600
        size = f"{hours / 24:.0f} days" if hours >= 48 else f"{hours:.0f} hours"
        side = "ahead of" if self._leap > timedelta() else "behind"
        return (
            f"the clock is {size} {side} the history's: until that has been so for {BELIEVED_AFTER_S / 3600:.0f} hours "
            "of running, nothing is deleted or set apart by it; set the clock if it is wrong"
        )
