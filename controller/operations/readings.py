"""Signals and knobs over time, for charts.

Belongs here: checking the question, columns of one length. Never: how it is kept (store/readings.py).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from controller.operations.refusal import Kind, Refused
from domain.knobs import NO_LIMIT
from domain.stretch import Reading
from domain.view import SIGNALS
from store.history import History

MOST_POINTS = 2000
DEFAULT_POINTS = 500
DOING = "show the signals over time"


@dataclass(frozen=True, slots=True)
class Series:
    """Columns of one length; None: not known at that point. A knob without a limit is NO_LIMIT."""

    since: datetime
    until: datetime
    at: tuple[datetime, ...]
    """When each point begins."""
    seconds: tuple[int, ...]
    """How long each is; 1 stands for a tick."""
    means: Mapping[str, tuple[float | None, ...]]
    highs: Mapping[str, tuple[float | None, ...]]
    knobs: Mapping[str, tuple[float | None, ...]]


class Readings:
    """Reads alone. Raises HistoryUnavailable."""

    def __init__(self, history: History) -> None:
        self._history = history

    async def series(
        self,
        since: datetime,
        until: datetime,
        signals: Sequence[str] | None = None,
        points: int = DEFAULT_POINTS,
        node: str | None = None,
    ) -> Series:
        """What these signals (None: all) and every knob were from `since` to before `until`. Raises Refused
        (INVALID) for a signal that there is not.
        """
        check_span(DOING, since, until)
        if not 1 <= points <= MOST_POINTS:
            reason = f"points = {points} is not within 1 and {MOST_POINTS}"
            raise Refused(Kind.INVALID, DOING, reason, "ask for fewer", "points")
        names = tuple(SIGNALS) if signals is None else tuple(dict.fromkeys(signals))
        for name in names:
            if name not in SIGNALS:
                near = difflib.get_close_matches(name, SIGNALS, 1)
                remedy = f"did you mean {near[0]}?" if near else "the list of signals says which there are"
                raise Refused(Kind.INVALID, DOING, f"there is no signal {name}", remedy, "signals")
        rows = await self._history.readings.span(since, until, node, points=points)
        knobs = sorted({knob for row in rows for knob in row.knobs})
        return Series(
            since=since,
            until=until,
            at=tuple(row.at for row in rows),
            seconds=tuple(row.resolution_s for row in rows),
            means={name: tuple(row.means.get(name) for row in rows) for name in names},
            highs={name: tuple(row.high(name) for row in rows) for name in names},
            knobs={knob: tuple(_knob(row, knob) for row in rows) for knob in knobs},
        )


def _knob(row: Reading, knob: str) -> float | None:
    """Kept as null where there was no limit, and absent where it was not known."""
    knobs = row.knobs
    if knob not in knobs:
        return None
    value = knobs[knob]
    return NO_LIMIT if value is None else value


def check_span(doing: str, since: datetime, until: datetime) -> None:
    """Raises Refused (INVALID) for a span that ends before it begins, or a time without a zone."""
    for name, at in (("since", since), ("until", until)):
        if at.tzinfo is None:
            raise Refused(Kind.INVALID, doing, f"{name} has no time zone", "end it with Z for UTC", name)
    if since >= until:
        reason = f"the span from {since:%Y-%m-%d %H:%M:%S} to {until:%Y-%m-%d %H:%M:%S} ends before it begins"
        raise Refused(Kind.INVALID, doing, reason, "the earlier time comes first", "since")
