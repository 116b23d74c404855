"""A notification as JSON: Alertmanager's webhook (version 4), and the alerts that Alertmanager's API v2 takes.

Belongs here: both bodies as plain values. Never: requests, chat messages, signatures.

Sources: Alertmanager's webhook_config (version "4") and its api/v2/openapi.yaml (postableAlerts). One bad label name or
a start after the end makes Alertmanager refuse a whole batch, so both are put right here, whatever a rule says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from alerts import sanitise
from domain.incident import Incident, IncidentState, Notification, fingerprint

NOT_OVER = "0001-01-01T00:00:00Z"
"""Go's zero time: how Alertmanager writes the end of an alert that still fires."""
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(9998, 12, 31, tzinfo=UTC)
_SHORTEST = timedelta(milliseconds=1)


def webhook(notification: Notification, external_url: str | None) -> dict[str, Any]:
    """The body of Alertmanager's webhook; labels and annotations that all alerts share are told once more on top."""
    alerts = [_webhook_alert(incident, external_url) for incident in notification.incidents]
    return {
        "version": "4",
        "groupKey": sanitise.text(notification.group_key),
        "truncatedAlerts": notification.truncated,
        "status": notification.state.value,
        "receiver": sanitise.text(notification.receiver),
        "groupLabels": sanitise.labels(notification.group_labels),
        "commonLabels": common([alert["labels"] for alert in alerts]),
        "commonAnnotations": common([alert["annotations"] for alert in alerts]),
        "externalURL": external_url or "",
        "alerts": alerts,
    }


def _webhook_alert(incident: Incident, external_url: str | None) -> dict[str, Any]:
    labels = told_labels(incident)
    over = incident.state is IncidentState.RESOLVED
    return {
        "status": incident.state.value,
        "labels": labels,
        "annotations": sanitise.labels(incident.annotations),
        "startsAt": rfc3339(incident.starts_at),
        "endsAt": rfc3339(_ended(incident)) if over else NOT_OVER,
        "generatorURL": external_url or "",
        # Of the labels as they are told, so that Alertmanager makes the same one of them.
        "fingerprint": fingerprint(labels),
    }


def postable(
    notification: Notification, now: datetime, lasts_s: float, external_url: str | None
) -> list[dict[str, Any]]:
    """The body of `POST /api/v2/alerts`. A firing alert ends in the future, `lasts_s` from `now`: it is to be sent
    again before that, and an Alertmanager that hears no more of it takes it for resolved then.
    """
    return [_postable_alert(incident, now, lasts_s, external_url) for incident in notification.incidents]


def _postable_alert(incident: Incident, now: datetime, lasts_s: float, external_url: str | None) -> dict[str, Any]:
    if incident.state is IncidentState.RESOLVED:
        ends = _ended(incident)
    else:
        # A clock that was set back must not make an alert end before it began.
        ends = max(_at(now), _at(incident.starts_at)) + timedelta(seconds=lasts_s)
    alert = {
        "labels": told_labels(incident),
        "annotations": sanitise.labels(incident.annotations),
        "startsAt": rfc3339(incident.starts_at),
        "endsAt": rfc3339(ends),
    }
    return alert | {"generatorURL": external_url} if external_url else alert


def told_labels(incident: Incident) -> dict[str, str]:
    """Its labels as receivers get them, under names that all of them take; `alertname` is always there."""
    return sanitise.labels({"alertname": incident.rule or "unnamed", **incident.labels})


def common(of_each: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The pairs that all of them have."""
    if not of_each:
        return {}
    first, *others = of_each
    return {name: value for name, value in first.items() if all(one.get(name) == value for one in others)}


def rfc3339(at: datetime) -> str:
    """In UTC, to the millisecond: `2026-07-30T09:15:00.000Z`."""
    return _at(at).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _at(at: datetime) -> datetime:
    """In UTC, in whole milliseconds, and inside what every receiver can read: a year 1 is "no time" to Alertmanager."""
    known = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    inside = min(max(known, _FIRST), _LAST).astimezone(UTC)
    return inside.replace(microsecond=inside.microsecond // 1000 * 1000)


def _ended(incident: Incident) -> datetime:
    """When it was over, after its start even where a clock was set back in between."""
    ended = incident.ends_at if incident.ends_at is not None else incident.updated_at
    return max(_at(ended), _at(incident.starts_at) + _SHORTEST)
