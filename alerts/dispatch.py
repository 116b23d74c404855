"""Which notifications are due: Alertmanager's waits, intervals and repeats.

Belongs here: that decision for each group. Never: sending, storing, a clock. `now` is wall time, since it has to hold
over a restart; a clock that was set back makes a group due at once, never late.

Where this differs from Alertmanager, for a receiver that cannot ask again: it is told that something is over only
where it was told that it fired, and then always; where that was silenced, once the silence has ended.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from alerts.groups import Group, Place, State, Timing, fires, put, take, timing
from alerts.muting import Muting
from alerts.settings import AlertsSettings
from domain.incident import Incident, Notification
from domain.silence import Silence

MOST = 50
"""How many groups are looked at in one call: what is left is due in the next."""


def dispatch(
    state: State,
    incidents: Iterable[Incident],
    silences: Iterable[Silence],
    now: datetime,
    settings: AlertsSettings,
    most: int = MOST,
) -> tuple[Notification, ...]:
    """`incidents` that began or ended since the last call are taken into `state`; then the groups whose time has come
    are told: what is returned.

    The state after it and the notifications are to be stored together: from the state before, the same notifications
    come again, under the same uid.
    """
    take(state, incidents, settings)
    due_now = tuple(islice(_due(state, now, settings), most))
    if not due_now:
        return ()
    muting = Muting(silences, settings.inhibit, state.sources.values(), now)
    groups, told = dict[Place, Group | None](), list[Notification]()
    for where in due_now:
        after, notifications = _look(state.groups[where], muting, now, settings)
        groups[where] = after if after.members else None
        told.extend(notifications)
    put(state, groups)
    return tuple(told)


def waiting(state: State, now: datetime, settings: AlertsSettings) -> bool:
    """Whether another call at `now` would look at a group."""
    return next(_due(state, now, settings), None) is not None


def resend(state: State, receiver: str, now: datetime, settings: AlertsSettings) -> tuple[Notification, ...]:
    """All that this receiver was told and that is still true, for a receiver that has to hear it again and again.

    Not for the outbox: one that gets lost is made good by the next.
    """
    groups = [group for group in state.groups.values() if group.place.receiver == receiver]
    true = [one for group in groups for name, one in group.members.items() if name in group.shown and fires(one)]
    slices = [true[at : at + settings.max_alerts] for at in range(0, len(true), settings.max_alerts)]
    return tuple(
        Notification(f"resend-{number}", receiver, "{}:{}", {}, tuple(incidents), now)
        for number, incidents in enumerate(slices)
    )


def _due(state: State, now: datetime, settings: AlertsSettings) -> Iterator[Place]:
    latest = now + timedelta(seconds=max(settings.group_wait_s, settings.group_interval_s))
    return state.agenda.due(now, latest)


def _look(group: Group, muting: Muting, now: datetime, settings: AlertsSettings) -> tuple[Group, list[Notification]]:
    """The group as it is after that, and what is told of it."""
    when = timing(settings.receivers[group.place.receiver], settings)
    news = _heard(group, group.untold, muting)
    over = [name for name in news if not fires(group.members[name])]
    new = [name for name in news if fires(group.members[name])]
    notified_at = None if group.notified_at is None else min(group.notified_at, now)
    repeat_at = None if notified_at is None or when.repeat is None else notified_at + when.repeat
    next_at = now + when.look
    repeats = repeat_at is not None and repeat_at <= now
    if when.whole and news:
        names = [*over, *new]
        most = settings.max_alerts
        parts = [names[start : start + most] for start in range(0, len(names), most)]
        return _told(group, names, names, len(parts), now, when), _notifications(group, parts, now)
    if news or repeats:
        old = [name for name in group.members if name not in group.untold and fires(group.members[name])]
        firing = [*new, *sorted(_heard(group, old, muting), key=lambda name: name not in group.shown)]
        if news or firing:
            chosen = _chosen(over, firing, settings.max_alerts)
            left = len(over) + len(firing) - len(chosen)
            after = _told(group, chosen, [*chosen, *firing], 1, now, when)
            return after, _notifications(group, [chosen], now, left)
    if repeat_at is not None and not repeats:
        next_at = min(next_at, repeat_at)
    return replace(group, changed=False, next_at=next_at, notified_at=notified_at), []


def _heard(group: Group, names: Iterable[str], muting: Muting) -> list[str]:
    """Those that nothing mutes, the oldest first."""
    heard = [name for name in names if not muting.mutes(group.members[name].labels)]
    return sorted(heard, key=lambda name: (group.members[name].starts_at, name))


def _chosen(over: Sequence[str], firing: Sequence[str], most: int) -> list[str]:
    """What is over comes first, since it is said only once; but a group that still fires is never told without it."""
    ended = over[: most - 1] if firing else over[:most]
    return [*ended, *firing[: most - len(ended)]]


def _told(
    group: Group, named: Sequence[str], told: Sequence[str], notifications: int, now: datetime, when: Timing
) -> Group:
    """After it was told of some by name, and of all that were `told` at least by their number."""
    members, ended = dict(group.members), [name for name in named if not fires(group.members[name])]
    for name in ended:
        del members[name]
    return replace(
        group,
        members=members,
        shown=(group.shown | frozenset(named)).difference(ended),
        untold=group.untold.difference(told),
        next_at=now + when.look,
        quiet_until=now + when.interval,
        changed=False,
        notified_at=now,
        sequence=group.sequence + notifications,
    )


def _notifications(
    group: Group, parts: Sequence[Sequence[str]], now: datetime, truncated: int = 0
) -> list[Notification]:
    """One for each of `parts`, which are names of incidents."""
    told = list[Notification]()
    for sequence, names in enumerate(parts, group.sequence):
        said = sorted((name, group.members[name].state.value) for name in names)
        # Not the moment: whoever comes to the same conclusion after a crash has to come to the same uid.
        uid = hashlib.sha256(json.dumps([*group.place, sequence, said]).encode()).hexdigest()[:32]
        incidents = sorted((group.members[name] for name in names), key=lambda one: one.starts_at)
        told.append(Notification(uid, *group.place, group.labels, tuple(incidents), now, truncated))
    return told
