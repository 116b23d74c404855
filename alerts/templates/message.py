"""A notification in the words of a chat message: what a template can name.

Belongs here: those values. Never: a service's format, Jinja2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime

from alerts import payload
from alerts.sanitise import fit, one_line
from domain.alert import Severity
from domain.incident import Incident, IncidentState, Notification, fingerprint

_TITLE_BYTES = 240
_RANK = tuple(Severity)


class Pairs(dict[str, str]):
    """Labels or annotations; one that is not there is empty, for a template cannot know which a rule has."""

    def __missing__(self, name: str) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Told:
    """One incident, as a template reads it."""

    name: str
    state: str
    severity: str
    summary: str
    description: str
    value: float | None
    labels: Pairs
    annotations: Pairs
    own_labels: Pairs
    """Those that set it apart: without its name, severity and node."""
    fingerprint: str
    starts_at: datetime
    ends_at: datetime | None
    lasted: str
    """From its start to its end, or until now: `12 min`."""


@dataclass(frozen=True, slots=True)
class Message:
    """One notification, as a template reads it: its fields are the names that a template knows."""

    title: str
    state: str
    severity: str
    """The worst of those that fire, or of all when none does."""
    node: str
    """Whose alerts these are; empty when they are of several."""
    alerts: tuple[Told, ...]
    firing: tuple[Told, ...]
    resolved: tuple[Told, ...]
    truncated: int
    group_labels: Pairs
    common_labels: Pairs
    receiver: str
    link: str
    """The configured external address; empty without one."""
    now: datetime

    def named(self) -> Mapping[str, object]:
        """Each field under its name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def message(notification: Notification, external_url: str | None, now: datetime) -> Message:
    """What is to be told, with the times counted up to `now`."""
    alerts = tuple(_told(incident, now) for incident in notification.incidents)
    firing = tuple(alert for alert in alerts if alert.state == IncidentState.FIRING)
    severity = max((alert.severity for alert in firing or alerts), key=_rank, default=Severity.INFO.value)
    shared = payload.common([alert.labels for alert in alerts])
    node = shared.get("instance", "")
    return Message(
        title=_title(notification.state, severity, firing or alerts, node),
        state=notification.state.value,
        severity=severity,
        node=node,
        alerts=alerts,
        firing=firing,
        resolved=tuple(alert for alert in alerts if alert.state == IncidentState.RESOLVED),
        truncated=notification.truncated,
        group_labels=Pairs(notification.group_labels),
        common_labels=Pairs(shared),
        receiver=notification.receiver,
        link=external_url or "",
        now=now,
    )


def _told(incident: Incident, now: datetime) -> Told:
    labels = payload.told_labels(incident)
    known = {"alertname", "severity", "instance"}
    return Told(
        name=labels["alertname"],
        state=incident.state.value,
        severity=incident.severity.value,
        summary=incident.annotations.get("summary", ""),
        description=incident.annotations.get("description", ""),
        value=incident.value,
        labels=Pairs(labels),
        annotations=Pairs(incident.annotations),
        own_labels=Pairs({name: value for name, value in labels.items() if name not in known}),
        fingerprint=fingerprint(labels),
        starts_at=incident.starts_at,
        ends_at=incident.ends_at,
        lasted=span(((incident.ends_at or now) - incident.starts_at).total_seconds()),
    )


def _rank(severity: str) -> int:
    return _RANK.index(Severity(severity))


def _title(state: IncidentState, severity: str, told: Iterable[Told], node: str) -> str:
    names = Counter(one_line(alert.name) for alert in told)
    first = next(iter(names), "nothing")
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    where = f" on {one_line(node)}" if node else ""
    head = f"[{state.value.upper()}:{names.total()}] {severity.upper()} "
    return fit(f"{head}{first}{more}{where}", _TITLE_BYTES)


def span(seconds: float) -> str:
    """In words, as coarse as a person says it: `45 s`, `12 min`, `3 h 5 min`, `2 d 4 h`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def clock(at: datetime) -> str:
    """`2026-07-30 09:15:00 UTC`."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
