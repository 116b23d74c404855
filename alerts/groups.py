"""Who will be told of what together: the groups of each receiver, and how a change of incidents changes them.

Belongs here: those values and taking incidents in. Never: whether it is time to tell (dispatch), JSON (saved).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from alerts.agenda import Agenda
from alerts.matching import matches
from alerts.muting import is_source
from alerts.settings import ALL_LABELS, AlertsSettings, Kind, ReceiverSettings
from domain.incident import Incident, IncidentState
from domain.silence import Matcher


class Place(NamedTuple):
    """Which group."""

    receiver: str
    key: str
    """As in Alertmanager: `{}:{alertname="emergency"}`."""


@dataclass(frozen=True, slots=True)
class Group:
    """What one receiver is told together. Incidents are named by `identity`."""

    place: Place
    labels: Mapping[str, str]
    members: Mapping[str, Incident]
    """Those that fire, and those that are over while the receiver still has to be told so."""
    shown: frozenset[str]
    """It was told that they fire."""
    untold: frozenset[str]
    """It has not heard yet that they fire, or that they are over. What is neither this nor shown was among those that
    a notification had no room for: nothing more is said of it until there is.
    """
    next_at: datetime
    """When to look at it at the latest."""
    quiet_until: datetime
    """Until then it is not told again, whatever changes."""
    changed: bool = True
    """Since it was looked at last."""
    notified_at: datetime | None = None
    sequence: int = 0
    """How many notifications there were."""

    @property
    def due_at(self) -> datetime:
        """When to look at it."""
        return min(self.next_at, self.quiet_until) if self.changed else self.next_at


@dataclass(slots=True)
class State:
    """All groups. `places` and `sources` follow from the incidents that fire and from the settings, `agenda` from the
    groups. It is changed in place: a change of a few groups must not cost a copy of thousands.
    """

    groups: dict[Place, Group] = field(default_factory=dict)
    places: dict[str, tuple[Place, ...]] = field(default_factory=dict)
    """The groups of each incident that fires."""
    sources: dict[str, Incident] = field(default_factory=dict)
    """The firing incidents that may make others needless."""
    agenda: Agenda[Place] = field(default_factory=Agenda)
    gone: Mapping[str, int] = field(default_factory=dict)
    """Of receivers that are no more, how many notifications their groups had: one that comes back under its name is
    told of what fires then under other uids, for what waited for it was given up.
    """


class Timing(NamedTuple):
    """How a kind of receiver is told. Alertmanager groups and repeats by itself, and needs every alert by name."""

    wait: timedelta
    interval: timedelta
    look: timedelta
    """How often a group is looked at where nothing of its own changed: a silence may have ended."""
    repeat: timedelta | None
    whole: bool
    """No alert is left out for lack of room: another notification follows."""


def timing(receiver: ReceiverSettings, settings: AlertsSettings) -> Timing:
    """What holds for this receiver."""
    interval = timedelta(seconds=settings.group_interval_s)
    if receiver.kind is Kind.ALERTMANAGER:
        return Timing(timedelta(), timedelta(), interval, None, whole=True)
    wait, repeat = timedelta(seconds=settings.group_wait_s), timedelta(seconds=settings.repeat_interval_s)
    return Timing(wait, interval, interval, repeat, whole=False)


def identity(incident: Incident) -> str:
    """Of one incident among all, those of the same rule included."""
    return f"{incident.fingerprint}@{incident.starts_at.isoformat()}"


def fires(incident: Incident) -> bool:
    """Whether it is not over."""
    return incident.state is IncidentState.FIRING


def take(state: State, incidents: Iterable[Incident], settings: AlertsSettings) -> None:
    """These incidents began or ended. One that is in already changes nothing; one that is over stays over."""
    news: dict[Place, list[tuple[str, Incident]]] = defaultdict(list)
    for incident in incidents:
        name = identity(incident)
        if fires(incident):
            if name not in state.places:
                state.places[name] = tuple(place(one, incident, settings) for one in _listeners(incident, settings))
            if is_source(incident.labels, settings.inhibit):
                state.sources[name] = incident
            told = state.places[name]
        else:
            told = state.places.pop(name, ())
            state.sources.pop(name, None)
        for where in told:
            news[where].append((name, incident))
    groups = dict[Place, Group | None]()
    for where, changes in news.items():
        before = state.groups.get(where) or _fresh(where, changes[0][1], settings)
        after = _with(before, changes, settings.receivers[where.receiver].send_resolved)
        groups[where] = after if after.members else None
    put(state, groups)


def put(state: State, changed: Mapping[Place, Group | None]) -> None:
    """These groups instead of those at the same places; None: nothing any more."""
    for where, after in changed.items():
        before = state.groups.pop(where, None)
        if after is not None:
            state.groups[where] = after
        state.agenda.move(where, None if before is None else before.due_at, None if after is None else after.due_at)


def place(receiver: str, incident: Incident, settings: AlertsSettings) -> Place:
    """The group of this receiver that the incident belongs to."""
    labels = (Matcher(name, value) for name, value in sorted(group_labels(incident, settings).items()))
    return Place(receiver, f"{{}}:{{{','.join(map(str, labels))}}}")


def group_labels(incident: Incident, settings: AlertsSettings) -> Mapping[str, str]:
    """What all incidents of its group agree in."""
    if settings.group_by == (ALL_LABELS,):
        return dict(incident.labels)
    return {name: incident.labels[name] for name in settings.group_by if name in incident.labels}


def _listeners(incident: Incident, settings: AlertsSettings) -> list[str]:
    return [name for name, one in settings.receivers.items() if matches(one.matchers, incident.labels)]


def _fresh(where: Place, first: Incident, settings: AlertsSettings) -> Group:
    """The wait counts from the start of the incident: what began before a restart has waited."""
    at = first.starts_at + timing(settings.receivers[where.receiver], settings).wait
    return Group(where, group_labels(first, settings), {}, frozenset(), frozenset(), at, at)


def _with(group: Group, changes: Iterable[tuple[str, Incident]], send_resolved: bool) -> Group:
    members, shown, untold, changed = dict(group.members), set(group.shown), set(group.untold), group.changed
    for name, incident in changes:
        known = members.get(name)
        if known == incident or (known is not None and not fires(known)):
            continue
        if known is None or (not fires(incident) and name in shown):
            untold.add(name)
        if fires(incident) or (name in shown and send_resolved):
            members[name] = incident
        else:  # nobody was told that it fired, so nobody is told that it is over
            members.pop(name, None)
            shown.discard(name)
            untold.discard(name)
        changed = True
    return replace(group, members=members, shown=frozenset(shown), untold=frozenset(untold), changed=changed)
