"""Alerts, silences, receivers, and Alertmanager's webhook as it comes in.

Belongs here: those models. Never: what an alert sets off.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from alerts.settings import Kind
from controller.alerting.alerting import Shown
from controller.alerting.wishes import Posted, Taken
from controller.api.models.base import DIGITS, TEXT, Answer, Asked, Body, Comment, Text
from controller.operations.alerts import LONGEST_SILENCE_S
from domain.incident import Delivery, fingerprint
from domain.silence import Silence

FINGERPRINT = re.compile(r"[0-9a-f]{16}")
MOST_NUMBER = 2**31 - 1


class AlertOut(Answer):
    """A rule that is pending, or an incident that is open: then it has a fingerprint and began at some time."""

    alertname: str
    severity: str
    state: Literal["pending", "firing"]
    muted: bool
    """Silenced, or made needless by another: nobody is told of it."""
    labels: dict[str, str]
    annotations: dict[str, str]
    fingerprint: str | None
    """Alertmanager's own, of the labels."""
    starts_at: AwareDatetime | None
    value: float | None


class AlertsOut(Answer):
    """What is pending or fires."""

    alerts: list[AlertOut]
    external_firing: int
    """How many alerts from outside fire."""


class AlertIn(BaseModel):
    """One alert as Alertmanager writes it; what is not named here is let be."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    status: Literal["firing", "resolved"]
    labels: Annotated[dict[str, str], Field(min_length=1)]
    starts_at: AwareDatetime = Field(alias="startsAt")
    fingerprint: str = ""

    def posted(self) -> Posted:
        """Who sends no fingerprint, or something else in its place, gets the one that Alertmanager would give."""
        sent = FINGERPRINT.fullmatch(self.fingerprint) is not None
        name = self.fingerprint if sent else fingerprint(self.labels)
        return Posted(name, self.starts_at, self.labels, self.status == "firing")


class WebhookIn(BaseModel):
    """Alertmanager's webhook, version 4; what is not named here is let be."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: Literal["4"]
    alerts: list[AlertIn]


class PickedOut(Answer):
    """One alert that a rule of `[alerts.incoming]` picks."""

    alertname: str
    fingerprint: str
    starts_at: AwareDatetime
    rule: str
    action: Literal["emergency_purge"]
    result: str
    """What came of it, or why nothing did."""


class TakenOut(Answer):
    """What became of a webhook."""

    received: int
    picked: list[PickedOut]


class SilenceOut(Answer):
    """From `starts_at` until just before `ends_at` nobody is told of alerts that every matcher picks."""

    id: int
    matchers: list[str]
    starts_at: AwareDatetime
    ends_at: AwareDatetime
    created_by: str
    comment: str


class SilencesOut(Answer):
    """Those that count now or will."""

    silences: list[SilenceOut]


class SilenceWanted(Body):
    """Tell nobody of some alerts for a time."""

    matchers: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=TEXT)]],
        Field(min_length=1, max_length=20),
    ]
    """In Alertmanager's syntax, as `severity=~"warning|critical"`; all have to hold."""
    seconds: Annotated[float, Field(gt=0, le=LONGEST_SILENCE_S)]
    comment: Comment = ""
    created_by: Text | None = None


class SilenceAsked(Asked):
    """One silence by its number."""

    id: Annotated[int, Field(ge=1, le=MOST_NUMBER), DIGITS]


class EndedOut(Answer):
    """A silence that counts no longer."""

    id: int
    ended: bool


class ReceiverOut(Answer):
    """How one receiver fares; counts are since the daemon's start."""

    name: str
    kind: Kind
    pending: int
    delivered: int
    failed: int
    """Refused, or given up for lack of room."""
    superseded: int
    """Told by a newer notification of the same group, since too many waited."""
    attempts: int
    failing_s: float
    last_success_at: AwareDatetime | None
    last_error: str | None
    last_error_at: AwareDatetime | None
    next_attempt_at: AwareDatetime | None


class NotDeliveredOut(Answer):
    """A notification that was given up: refused, one too many, or told by a newer one."""

    receiver: str
    alertnames: list[str]
    created_at: AwareDatetime
    attempts: int
    error: str | None
    """Why, in the receiver's words where it had any."""


class ReceiversOut(Answer):
    """All that are configured."""

    receivers: list[ReceiverOut]
    not_delivered: list[NotDeliveredOut] | None
    """The newest notifications that were given up, over restarts too, newest first; null while the history does not
    answer.
    """


class ReceiverAsked(Asked):
    """One receiver by its name."""

    name: Text


class TriedOut(Answer):
    """A receiver that took the test."""

    receiver: str
    delivered: bool


def alert(one: Shown) -> AlertOut:
    """As it is answered."""
    rule, incident = one.rule, one.incident
    return AlertOut(
        alertname=rule.name,
        severity=(rule.severity if incident is None else incident.severity).value,
        state="pending" if incident is None else "firing",
        muted=one.muted,
        labels=dict(rule.labels if incident is None else incident.labels),
        annotations={"summary": rule.summary, **rule.annotations} if incident is None else dict(incident.annotations),
        fingerprint=None if incident is None else incident.fingerprint,
        starts_at=None if incident is None else incident.starts_at,
        value=None if incident is None else incident.value,
    )


def picked(one: Taken) -> PickedOut:
    """As it is answered; a wish that no tick has heard yet still stands."""
    posted, wish = one.posted, one.wish
    return PickedOut(
        alertname=posted.name,
        fingerprint=posted.fingerprint,
        starts_at=posted.starts_at,
        rule=one.rule or "",
        action="emergency_purge",
        result=wish.answer.result() if wish is not None and wish.answer.done() else one.result,
    )


def not_delivered(one: Delivery) -> NotDeliveredOut:
    """As it is answered."""
    told = one.notification
    return NotDeliveredOut(
        receiver=told.receiver,
        alertnames=sorted({incident.rule for incident in told.incidents}),
        created_at=told.created_at,
        attempts=one.attempts,
        error=one.error,
    )


def silence(one: Silence) -> SilenceOut:
    """As it is answered."""
    return SilenceOut(
        id=one.id or 0,
        matchers=[str(matcher) for matcher in one.matchers],
        starts_at=one.starts_at,
        ends_at=one.ends_at,
        created_by=one.created_by,
        comment=one.comment,
    )
