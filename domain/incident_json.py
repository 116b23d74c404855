"""Incidents and notifications as values that JSON knows, for whoever keeps them.

Belongs here: both directions. Never: the JSON that a receiver is sent (alerts/payload.py), text, where it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from domain.alert import Severity
from domain.incident import Incident, IncidentState, Notification


def written(incident: Incident) -> dict[str, Any]:
    """All of it."""
    return {
        "rule": incident.rule,
        "severity": incident.severity.value,
        "labels": dict(incident.labels),
        "state": incident.state.value,
        "starts_at": incident.starts_at.isoformat(),
        "updated_at": incident.updated_at.isoformat(),
        "ends_at": None if incident.ends_at is None else incident.ends_at.isoformat(),
        "value": incident.value,
        "annotations": dict(incident.annotations),
    }


def read(told: Mapping[str, Any]) -> Incident:
    """What `written` wrote. Raises KeyError and ValueError at what it never writes."""
    return Incident(
        rule=told["rule"],
        severity=Severity(told["severity"]),
        labels=told["labels"],
        state=IncidentState(told["state"]),
        starts_at=datetime.fromisoformat(told["starts_at"]),
        updated_at=datetime.fromisoformat(told["updated_at"]),
        ends_at=None if told["ends_at"] is None else datetime.fromisoformat(told["ends_at"]),
        value=told["value"],
        annotations=told["annotations"],
    )


def written_notification(notification: Notification) -> dict[str, Any]:
    """What it tells; to whom and since when is known beside it."""
    return {
        "group_labels": dict(notification.group_labels),
        "incidents": [written(one) for one in notification.incidents],
        "truncated": notification.truncated,
    }


def read_notification(
    told: Mapping[str, Any], *, uid: str, receiver: str, group_key: str, created_at: datetime
) -> Notification:
    """What `written_notification` wrote, with what is known beside it."""
    incidents = tuple(read(one) for one in told["incidents"])
    return Notification(uid, receiver, group_key, told["group_labels"], incidents, created_at, told["truncated"])
