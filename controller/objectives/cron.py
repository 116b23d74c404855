"""Cron expressions as crontab(5) reads them: which moment came last.

Belongs here: the expression and its moments. Never: what begins at one, reading the clock.

APScheduler does the calendar. It counts weekdays from Monday, and takes a day only where day of month and day of week
both fit; cron counts from Sunday, and takes either.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from apscheduler.triggers.cron import CronTrigger

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LOOK_BACK = tuple(timedelta(days=days) for days in (0.1, 2, 9, 40, 400, 3000))
"""Tried one after the other; the longest holds a 29th of February whatever the century."""
_SECOND = timedelta(seconds=1)


class Cron:
    """`minute hour day-of-month month day-of-week` in a time zone; None is the machine's.

    Raises ValueError, in words that go on after "cannot use ...: ".
    """

    def __init__(self, expression: str, zone: tzinfo | None = UTC) -> None:
        fields = expression.split()
        if len(fields) != 5:
            raise ValueError(
                f"must have five fields (minute, hour, day of month, month, day of week), has {len(fields)}"
            )
        minute, hour, day, month, weekday = fields
        if day != "*" and weekday != "*":
            raise ValueError("must not restrict both day of month and day of week: write two entries")
        self._trigger = CronTrigger(
            minute=minute, hour=hour, day=day, month=month, day_of_week=_weekdays(weekday), timezone=zone
        )
        self._span: tuple[datetime, datetime] | None = None
        if self._next(datetime(2000, 1, 1, tzinfo=UTC)) is None:
            raise ValueError("must name a day that there is")

    def latest(self, at: datetime) -> datetime | None:
        """The last moment at or before `at`, in UTC; None when there was none for eight years."""
        if self._span is not None and self._span[0] <= at < self._span[1]:
            return self._span[0]
        for back in _LOOK_BACK:
            first = self._next(at - back)
            if first is not None and first <= at:
                return self._search(first, at)
        return None

    def _search(self, found: datetime, at: datetime) -> datetime:
        """Halves what lies between a moment that came and now until nothing comes in between."""
        late = at
        while (following := self._next(found + _SECOND)) is not None and following <= at:
            found = following
            middle = found + (late - found) / 2
            ahead = self._next(middle)
            if ahead is not None and ahead <= at:
                found = ahead
            else:
                late = middle
        if following is not None:
            self._span = found, following
        return found

    def _next(self, at: datetime) -> datetime | None:
        """The first moment at or after `at`."""
        moment: datetime | None = self._trigger.get_next_fire_time(None, at)
        return None if moment is None else moment.astimezone(UTC)


def _weekdays(field: str) -> str:
    """cron's weekdays (0 and 7 are Sunday, names, ranges, steps) as a list of names."""
    if field == "*":
        return field
    chosen: set[int] = set()
    for part in field.lower().split(","):
        found = re.fullmatch(r"(?:\*|(\w+)(?:-(\w+))?)(?:/([1-9]\d*))?", part)
        if found is None:
            raise ValueError(f"must have a day of week like 1-5 or mon,wed, not {field!r}")
        first, last, step = found.groups()
        low = 0 if first is None else _weekday(first)
        high = 6 if first is None or (last is None and step) else _weekday(last or first)
        if last is not None and high == 0:
            high = 7  # as in fri-sun
        if high < low:
            raise ValueError(f"must have a day of week whose ranges go up, not {field!r}")
        chosen.update(day % 7 for day in range(low, high + 1, int(step or 1)))
    return ",".join(_DAYS[day] for day in sorted(chosen))


def _weekday(word: str) -> int:
    if word in _DAYS:
        return _DAYS.index(word)
    if re.fullmatch("[0-7]", word):
        return int(word)
    raise ValueError(f"must have a day of week from 0 to 7 or sun to sat, not {word!r}")
