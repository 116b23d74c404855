"""What was measured before and after one change, and which changes were its neighbours.

Belongs here: which stretches may be compared. Never: judging (policies/judgement.py compares at the same load; these
are plain means), how it looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from domain.decision import Status
from domain.knobs import TRAITS
from domain.stretch import AS_READ_S, Reading, merged
from store.history import History, StoredDecision

WINDOW_S = 300.0


@dataclass(frozen=True, slots=True)
class Side:
    """A stretch of time and the means over it; None: nothing that lies in it whole was measured, or is still kept."""

    since: datetime
    until: datetime
    means: Reading | None


@dataclass(frozen=True, slots=True)
class Around:
    """One decision among its neighbours: those of the same knob and node that are more than a hold."""

    earlier: StoredDecision | None
    later: StoredDecision | None
    before: Side | None
    """None, as `after`: the decision changed nothing."""
    after: Side | None
    others: tuple[StoredDecision, ...]
    """What else was changed within the two stretches."""


async def around(history: History, stored: StoredDecision, window_s: float = WINDOW_S) -> Around:
    """Up to `window_s` before the change, and as much from its taking effect on; neither reaches past another change
    of the same knob. Raises HistoryUnavailable.
    """
    one = stored.decision
    same = history.decisions
    earlier = await same.select(limit=1, before_id=stored.id, knob=one.knob, node=one.node, changes_only=True)
    later = await same.next(after_id=stored.id, knob=one.knob, node=one.node, changes_only=True)
    if one.status is not Status.APPLIED:
        return Around(earlier[0] if earlier else None, later, None, None, ())
    since, until = reach(stored, window_s)
    applied = await same.select(since=since, until=until, node=one.node, status=Status.APPLIED)
    near = stretches(stored, applied, window_s)
    return Around(
        earlier[0] if earlier else None,
        later,
        await _side(history, *near.before, one.node),
        await _side(history, *near.after, one.node),
        near.others,
    )


@dataclass(frozen=True, slots=True)
class Stretches:
    """The two that may be compared, each from when until when, and what else was changed within them."""

    before: tuple[datetime, datetime]
    after: tuple[datetime, datetime]
    others: tuple[StoredDecision, ...]


def reach(stored: StoredDecision, window_s: float) -> tuple[datetime, datetime]:
    """How far back and forth the stretches reach at most."""
    window = timedelta(seconds=window_s)
    return stored.decision.at - window, _settled(stored) + window


def stretches(stored: StoredDecision, applied: Sequence[StoredDecision], window_s: float) -> Stretches:
    """`applied`: all that took effect within reach."""
    one, settled = stored.decision, _settled(stored)
    since, until = reach(stored, window_s)
    others = [other for other in applied if other.id != stored.id]
    moved = [other.decision.at for other in others if other.decision.knob == one.knob]
    since = max([at for at in moved if at <= one.at], default=since)
    until = min([at for at in moved if at > one.at], default=until)
    within = tuple(other for other in others if since <= other.decision.at < until)
    return Stretches((since, one.at), (min(settled, until), until), within)


def _settled(stored: StoredDecision) -> datetime:
    """When the change speaks from what is measured."""
    traits = TRAITS.get(stored.decision.knob)
    return stored.decision.at + timedelta(seconds=traits.effect_delay_s if traits is not None else 0.0)


async def _side(history: History, since: datetime, until: datetime, node: str) -> Side:
    readings = await history.readings.whole(since, until, node)
    return Side(since, until, mean(readings, until))


def mean(readings: Sequence[Reading], until: datetime) -> Reading | None:
    """Of the readings that end in time: one that holds the change says nothing of either side."""
    whole = [
        one
        for one in readings
        if one.resolution_s == AS_READ_S or one.at + timedelta(seconds=one.resolution_s) <= until
    ]
    return merged(whole, whole[0].at, sum(one.resolution_s for one in whole)) if whole else None
