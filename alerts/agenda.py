"""When each group is to be looked at: an index by the second, so that a tick without work costs nothing.

Belongs here: that index. Never: what makes a group due, or what is done then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

Key = TypeVar("Key")


@dataclass(slots=True)
class Agenda(Generic[Key]):
    """`seconds`: of each second what is due in it, and when exactly."""

    seconds: dict[int, dict[Key, datetime]] = field(default_factory=dict)

    def move(self, key: Key, before: datetime | None, after: datetime | None) -> None:
        """`key` is due at `after` instead of `before`; None: not at all."""
        if before is not None:
            second = _second_of(before)
            del self.seconds[second][key]
            if not self.seconds[second]:
                del self.seconds[second]
        if after is not None:
            self.seconds.setdefault(_second_of(after), {})[key] = after

    def due(self, now: datetime, latest: datetime) -> Iterator[Key]:
        """What is due at `now`, the longest overdue first; what is due after `latest` too, for no wait is that long:
        the clock was set back.
        """
        this, last = _second_of(now), _second_of(latest)
        for second in sorted(self.seconds):
            if second < this or second > last:
                yield from self.seconds[second]
            elif second == this:
                yield from (key for key, moment in self.seconds[second].items() if moment <= now)


def _second_of(moment: datetime) -> int:
    return math.floor(moment.timestamp())
