"""Decisions, what explains them, what came of them, and the audit.

Belongs here: those models. Never: reading the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, Field, StringConstraints

from controller.api.models.base import DIGITS, Answer, Asked, Evidence, Flag, Moment, Name, Text, Value
from controller.operations.decisions import DEFAULT_A_PAGE, MOST_A_PAGE
from domain.decision import Decision, Mode, Reason, Status
from domain.outcome import Verdict
from store.history import StoredDecision

MOST_NUMBER = 10**18 - 1


class OutcomeOut(Answer):
    """What came of a change."""

    verdict: Verdict
    sentence: str
    numbers: Evidence
    undo: bool
    """It was worse than an objective allows, so the value before is wanted back."""


class DecisionOut(Answer):
    """One knob, one tick: what was wanted, what was asked of the engine, what it then read."""

    id: int | None = None
    """Its number in the history; null while it is not written."""
    uid: str | None
    run_id: int | None = None
    """The boot of the engine that it was made for."""
    node: str
    at: AwareDatetime
    mode: Mode
    policy: str
    knob: str
    old: Value | None
    wanted: Value | None
    requested: Value | None
    observed: Value | None
    status: Status
    reason: Reason
    sentence: str
    evidence: Evidence
    guards: list[str]
    error: str | None
    boot_id: str | None
    diagnoses: list[str]
    outcome: OutcomeOut | None
    """Null until it is judged."""


def decision(one: Decision) -> DecisionOut:
    """One that may not be in the history yet."""
    return DecisionOut.model_validate(one)


def stored(one: StoredDecision) -> DecisionOut:
    """One of the history."""
    return decision(one.decision).model_copy(update={"id": one.id, "run_id": one.run_id})


def maybe(one: StoredDecision | None) -> DecisionOut | None:
    """One of the history, where there is one."""
    return None if one is None else stored(one)


def all_stored(some: Iterable[StoredDecision]) -> list[DecisionOut]:
    """Those of the history."""
    return [stored(one) for one in some]


class DecisionsOut(Answer):
    """A page, newest first."""

    decisions: list[DecisionOut]
    older: int | None
    """Ask with `before` as this for the next page; null: there is none."""


class DecisionsAsked(Asked):
    """Which decisions."""

    limit: Annotated[int, Field(ge=1, le=MOST_A_PAGE), DIGITS] = DEFAULT_A_PAGE
    before: Annotated[int, Field(ge=1, le=MOST_NUMBER), DIGITS] | None = None
    """Only older ones than this number."""
    since: Moment | None = None
    until: Moment | None = None
    """Only those before it."""
    knob: Name | None = None
    policy: Name | None = None
    reason: Reason | None = None
    status: Status | None = None
    outcome: Verdict | None = None
    node: Text | None = None
    changes: Flag = False
    """Leave the holds out."""


class DecisionAsked(Asked):
    """One decision."""

    id: Annotated[str, StringConstraints(pattern=r"^[0-9a-z]{1,32}$"), Field(examples=["1"])]
    """Its number, or the uid that events carry."""


class RunOut(Answer):
    """One boot of an engine; `envelope` holds its start-up value of each knob."""

    id: int
    started_at: AwareDatetime
    node: str
    engine_url: str
    boot_id: str
    vllm_version: str
    plugin_version: str
    envelope: dict[str, float | None]


class ExplainedOut(Answer):
    """One decision with its neighbours on the same knob."""

    decision: DecisionOut
    run: RunOut | None
    before: DecisionOut | None
    """The change of this knob before it."""
    after: DecisionOut | None
    """The one after."""


class TallyOut(Answer):
    """What came of the changes of one policy on one knob."""

    policy: str
    knob: str
    verdicts: dict[str, int]
    undone: int
    waiting: int
    """Not judged yet."""


class OutcomesOut(Answer):
    """All that was applied in that time."""

    since: AwareDatetime
    until: AwareDatetime
    tallies: list[TallyOut]
    judged: list[DecisionOut]
    """The newest that were judged, newest first."""


class SpanAsked(Asked):
    """A time, up to now without `until`."""

    since: Moment | None = None
    until: Moment | None = None
    node: Text | None = None


class AuditAsked(Asked):
    """Which entries: the newest of that time."""

    since: Moment | None = None
    until: Moment | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_A_PAGE), DIGITS] = DEFAULT_A_PAGE


class ActionOut(Answer):
    """What somebody asked for, and what came of it."""

    at: datetime
    actor: str
    action: str
    target: str
    detail: dict[str, Any]
    result: str
    """`ok`, or the sentence of the refusal or failure."""
    request_id: str | None
    node: str


class AuditOut(Answer):
    """Oldest first."""

    actions: list[ActionOut]
