"""Dispatch driven second by second, for tests.

Belongs here: the rig and short ways to write incidents. Never: a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from alerts.dispatch import dispatch
from alerts.groups import State
from alerts.settings import AlertsSettings
from domain.alert import Severity
from domain.incident import Incident, IncidentState, Notification
from domain.silence import Silence
from tests.told import NOON, incident

HOOK = {"kind": "webhook", "url": "http://127.0.0.1/hook"}
AM = {"kind": "alertmanager", "url": "http://127.0.0.1:9093"}


def settings(receivers: dict[str, Any] | None = None, **more: Any) -> AlertsSettings:
    return AlertsSettings.model_validate({"receivers": receivers or {"ops": HOOK}, **more})


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def begun(name: str = "a", second: float = 0.0, severity: Severity = Severity.WARNING, **labels: str) -> Incident:
    return incident(name, severity, starts_at=at(second), labels=labels)


def over(one: Incident, second: float) -> Incident:
    return replace(one, state=IncidentState.RESOLVED, ends_at=at(second), updated_at=at(second))


def said(notifications: Sequence[Notification]) -> list[list[tuple[str, str]]]:
    return [[(one.rule, one.state.value) for one in each.incidents] for each in notifications]


@dataclass
class Rig:
    """The state, driven second by second."""

    settings: AlertsSettings = field(default_factory=settings)
    silences: list[Silence] = field(default_factory=list)
    state: State = field(default_factory=State)
    told: list[tuple[float, Notification]] = field(default_factory=list)

    def at(self, second: float, *incidents: Incident) -> list[list[tuple[str, str]]]:
        notifications = dispatch(self.state, incidents, self.silences, at(second), self.settings)
        self.told.extend((second, one) for one in notifications)
        return said(notifications)

    def until(self, second: int, since: int) -> list[float]:
        """Every second from `since` on; when something was told."""
        before = len(self.told)
        for now in range(since, second + 1):
            self.at(now)
        return [when for when, _ in self.told[before:]]
