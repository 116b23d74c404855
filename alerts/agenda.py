"""When each group is to be looked at: an index by the second, so that a tick without work costs nothing.

Belongs here: that index. Never: what makes a group due, or what is done then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Generic, TypeVar

Key = TypeVar("Key")
Agenda = Mapping[int, Mapping[Key, datetime]]
"""Of each second: what is due in it, and when exactly."""


class Diary(Generic[Key]):
    """A working copy of an agenda. Only the seconds that change are copied."""

    def __init__(self, agenda: Agenda[Key]) -> None:
        self._seconds = dict(agenda)
        self._own: dict[int, dict[Key, datetime]] = {}

    def move(self, key: Key, before: datetime | None, after: datetime | None) -> None:
        """`key` is due at `after` instead of `before`; None: not at all."""
        if before is not None:
            del self._second(before)[key]
        if after is not None:
            self._second(after)[key] = after

    def done(self) -> Agenda[Key]:
        """The agenda as it is now."""
        return {second: kept for second, kept in {**self._seconds, **self._own}.items() if kept}

    def _second(self, moment: datetime) -> dict[Key, datetime]:
        second = _second_of(moment)
        if second not in self._own:
            self._own[second] = dict(self._seconds.get(second, {}))
        return self._own[second]


def due(agenda: Agenda[Key], now: datetime, latest: datetime) -> Iterator[Key]:
    """What is due at `now`, the longest overdue first; what is due after `latest` too, for no wait is that long: the
    clock was set back.
    """
    this, last = _second_of(now), _second_of(latest)
    for second in sorted(agenda):
        if second < this or second > last:
            yield from agenda[second]
        elif second == this:
            yield from (key for key, moment in agenda[second].items() if moment <= now)


def _second_of(moment: datetime) -> int:
    return math.floor(moment.timestamp())
