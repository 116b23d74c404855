"""The state of dispatch as JSON: what the incidents and the settings do not say by themselves.

Belongs here: writing and reading that. Never: where it is kept, and the incidents that fire: they are kept elsewhere,
each once, however many receivers there are.

A reload goes the same way as a restart: what was told is held against the new settings, so that another grouping tells
nobody twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from alerts.groups import Group, Place, State, fires, group_labels, identity, place, put, take, timing
from alerts.settings import AlertsSettings
from domain.incident import Incident
from domain.incident_json import read, written


def pack(state: State) -> dict[str, Any]:
    """As values that JSON knows."""
    gone = [_packed_gone(receiver, sequence) for receiver, sequence in state.gone.items()]
    return {"groups": [*map(_packed, state.groups.values()), *gone]}


def unpack(packed: Mapping[str, Any], incidents: Iterable[Incident], settings: AlertsSettings) -> State:
    """From what `pack` made, and from all incidents that fire. Where these were kept later than the state, those that
    ended in between belong to them too: a receiver that knows them has to hear it.

    What was told of any other incident is forgotten, as is what receivers were told that are no more.
    """
    receivers: dict[str, _Told] = {name: _Told() for name in settings.receivers}
    gone: dict[str, int] = {}
    for row in packed["groups"]:
        if (name := row["receiver"]) in receivers:
            receivers[name].add(row)
        else:
            gone[name] = max(row["sequence"], gone.get(name, 0))
    known = {identity(one): one for one in incidents}
    state = State()
    take(state, filter(fires, known.values()), settings)
    groups = dict(state.groups)
    for where, members in _needed(receivers, known, settings).items():
        groups[where] = _joined(groups.get(where), where, members, settings)
        for name in members.keys() & state.places.keys():
            if where not in state.places[name]:  # the receiver no longer listens for it, but has to hear the end of it
                state.places[name] = (*state.places[name], where)
    put(state, {where: receivers[where.receiver].told(group) for where, group in groups.items()})
    # Without an incident that is open nothing can come again under the same uid.
    state.gone = gone if state.places else {}
    return state


def _needed(
    receivers: Mapping[str, _Told], known: Mapping[str, Incident], settings: AlertsSettings
) -> Mapping[Place, Mapping[str, Incident]]:
    """Those that a receiver has to hear the end of, where they belong now."""
    found: dict[Place, dict[str, Incident]] = defaultdict(dict)
    for receiver, told in receivers.items():
        shown = {name: known[name] for name in told.shown if name in known}
        for name, incident in {**shown, **told.over}.items():
            if fires(incident) or settings.receivers[receiver].send_resolved:
                found[place(receiver, incident, settings)][name] = incident
    return found


@dataclass(slots=True)
class _Told:
    """What one receiver was told, in whatever groups."""

    shown: set[str] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)
    over: dict[str, Incident] = field(default_factory=dict)
    rows: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        self.rows[row["key"]] = row
        self.shown.update(row["shown"])
        self.counted.update(row["counted"])
        ended = (read(one) for one in row["over"])
        self.over.update((identity(one), one) for one in ended)

    def told(self, group: Group) -> Group:
        """The group with what is known of its members, and of its time if it is an old one."""
        news = {name for name, one in group.members.items() if not fires(one)}
        group = replace(
            group,
            shown=frozenset(self.shown & group.members.keys()),
            untold=frozenset((group.members.keys() - self.shown - self.counted) | news),
        )
        row = self.rows.get(group.place.key)
        if row is not None:
            return replace(
                group,
                next_at=_moment(row["next_at"]),
                quiet_until=_moment(row["quiet_until"]),
                changed=row["changed"] or bool(news - self.over.keys()),
                notified_at=None if row["notified_at"] is None else _moment(row["notified_at"]),
                sequence=row["sequence"],
            )
        moments = [_moment(one["notified_at"]) for one in self.rows.values() if one["notified_at"] is not None]
        return replace(
            group,
            notified_at=max(moments, default=None) if group.shown else None,
            sequence=max((one["sequence"] for one in self.rows.values()), default=0),
        )


def _joined(group: Group | None, where: Place, members: Mapping[str, Incident], settings: AlertsSettings) -> Group:
    if group is not None:
        return replace(group, members={**group.members, **members})
    first = min(members.values(), key=lambda one: one.starts_at)
    at = first.starts_at + timing(settings.receivers[where.receiver], settings).wait
    return Group(where, group_labels(first, settings), members, frozenset(), frozenset(), at, at)


def _packed(group: Group) -> dict[str, Any]:
    return {
        "receiver": group.place.receiver,
        "key": group.place.key,
        "shown": sorted(group.shown),
        "counted": sorted(name for name in group.members if name not in group.shown and name not in group.untold),
        "over": [written(one) for one in group.members.values() if not fires(one)],
        "next_at": group.next_at.isoformat(),
        "quiet_until": group.quiet_until.isoformat(),
        "changed": group.changed,
        "notified_at": None if group.notified_at is None else group.notified_at.isoformat(),
        "sequence": group.sequence,
    }


def _packed_gone(receiver: str, sequence: int) -> dict[str, Any]:
    """As of a group that has no members, under a key that no group has."""
    nothing: dict[str, Any] = {"shown": [], "counted": [], "over": [], "notified_at": None}
    return {"receiver": receiver, "key": "", "sequence": sequence, **nothing}


_moment = datetime.fromisoformat
