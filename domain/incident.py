"""Incidents, what is told of them, and how far the telling got.

Belongs here: those values, and the identity of an incident. Never: when somebody is told (alerts/), SQL, HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from domain.alert import Severity

_FNV_OFFSET, _FNV_PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, 0xFFFFFFFFFFFFFFFF


class IncidentState(StrEnum):
    """What a receiver is told. A rule that is only pending is no incident yet."""

    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Incident:
    """One rule that fired, from then until it is over: its labels and `starts_at` never change."""

    rule: str
    severity: Severity
    labels: Mapping[str, str]
    """`alertname`, `severity`, `instance` (the node) and the rule's own: what the incident is."""
    state: IncidentState
    starts_at: datetime
    updated_at: datetime
    ends_at: datetime | None = None
    """When it was resolved; None while it fires."""
    value: float | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    """`summary`, `description` with the numbers: what may change from one telling to the next."""

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits of the labels: Alertmanager's own, so that both name an alert alike."""
        return fingerprint(self.labels)


def fingerprint(labels: Mapping[str, str]) -> str:
    """FNV-1a over the sorted labels, each name and value ended by a byte that UTF-8 does not know."""
    digest = _FNV_OFFSET
    for name, value in sorted(labels.items()):
        for byte in (*name.encode(), 0xFF, *value.encode(), 0xFF):
            digest = ((digest ^ byte) * _FNV_PRIME) & _MASK
    return f"{digest:016x}"


@dataclass(frozen=True, slots=True)
class Notification:
    """What one receiver is told at once: the incidents of one group. `uid` is given before it is written."""

    uid: str
    receiver: str
    group_key: str
    group_labels: Mapping[str, str]
    incidents: tuple[Incident, ...]
    created_at: datetime
    truncated: int = 0
    """How many incidents of the group were left out: a notification is bounded."""

    @property
    def state(self) -> IncidentState:
        """Firing while any of its incidents does."""
        firing = any(one.state is IncidentState.FIRING for one in self.incidents)
        return IncidentState.FIRING if firing else IncidentState.RESOLVED


class DeliveryStatus(StrEnum):
    """Where a notification stands."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    """Given up: the receiver refuses it. Kept, so that it can be seen."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification in the outbox. `error` is the last attempt's, without a secret."""

    notification: Notification
    status: DeliveryStatus = DeliveryStatus.PENDING
    attempts: int = 0
    not_before: datetime | None = None
    """When the next attempt may be made."""
    delivered_at: datetime | None = None
    error: str | None = None
