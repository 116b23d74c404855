"""Rows of incidents, notifications and silences to domain values and back.

Belongs here: one pair of functions for each kind. Never: queries.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from domain.alert import Severity
from domain.incident import Delivery, DeliveryStatus, Incident, IncidentState
from domain.incident_json import read_notification, written_notification
from domain.silence import Matcher, Silence
from store.models import AlertRow, DeliveryRow, SilenceRow

MOST_COMMENT = 2000
"""Characters: it is as long as the caller likes."""


def incident_values(node: str, incident: Incident) -> dict[str, Any]:
    """The columns of an incident."""
    return {
        "node": node,
        "fingerprint": incident.fingerprint,
        "rule": incident.rule,
        "severity": incident.severity.value,
        "state": incident.state.value,
        "starts_at": incident.starts_at,
        "updated_at": incident.updated_at,
        "ends_at": incident.ends_at,
        "value": incident.value,
        "labels": dict(incident.labels),
        "annotations": dict(incident.annotations),
    }


def to_incident(row: AlertRow) -> Incident:
    """Raises ValueError at a word that this version does not know."""
    return Incident(
        rule=row.rule,
        severity=Severity(row.severity),
        labels=row.labels,
        state=IncidentState(row.state),
        starts_at=row.starts_at,
        updated_at=row.updated_at,
        ends_at=row.ends_at,
        value=row.value,
        annotations=row.annotations,
    )


def delivery_values(node: str, delivery: Delivery) -> dict[str, Any]:
    """The columns of a notification in the outbox."""
    told = delivery.notification
    return {
        "uid": told.uid,
        "node": node,
        "receiver": told.receiver,
        "group_key": told.group_key,
        "status": delivery.status.value,
        "created_at": told.created_at,
        "not_before": delivery.not_before,
        "delivered_at": delivery.delivered_at,
        "attempts": delivery.attempts,
        "error": delivery.error,
        "body": written_notification(told),
    }


def to_delivery(row: DeliveryRow) -> Delivery:
    """Raises ValueError at a word that this version does not know, and where the body is damaged."""
    try:
        told = read_notification(
            row.body, uid=row.uid, receiver=row.receiver, group_key=row.group_key, created_at=row.created_at
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"cannot read the notification {row.uid}: its body is damaged ({error!r})") from error
    return Delivery(told, DeliveryStatus(row.status), row.attempts, row.not_before, row.delivered_at, row.error)


def silence_values(node: str, silence: Silence) -> dict[str, Any]:
    """The columns of a silence."""
    return {
        "node": node,
        "matchers": [asdict(one) for one in silence.matchers],
        "starts_at": silence.starts_at,
        "ends_at": silence.ends_at,
        "created_by": silence.created_by,
        "comment": silence.comment[:MOST_COMMENT],
    }


def to_silence(row: SilenceRow) -> Silence:
    """All of it."""
    matchers = tuple(Matcher(**one) for one in row.matchers)
    return Silence(matchers, row.starts_at, row.ends_at, row.created_by, row.comment, row.id)
