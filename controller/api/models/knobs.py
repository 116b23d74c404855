"""Knobs and overrides.

Belongs here: those models. Never: a bound of the engine.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from controller.api.models.base import Answer, Body, Comment, Name, Value, Wanted
from controller.api.models.decisions import DecisionOut
from controller.operations.knobs import DEFAULT_TTL_S, LEAST_TTL_S, MOST_TTL_S


class OverrideOut(Answer):
    """An operator's word on a knob."""

    knob: str
    value: Value
    until: AwareDatetime
    left_s: float
    set_at: AwareDatetime
    actor: str
    comment: str
    survives_restart: bool
    """The history knows of it."""
    withheld: str | None
    """Why it is not in force now; null: it is."""


class KnobOut(Answer):
    """One knob."""

    name: str
    value: Value | None
    """What the engine reads now: the lowest where its cores differ."""
    cores: list[Value | None]
    startup: Value | None
    minimum: Value | None
    maximum: Value | None
    support: Literal["native", "limited", "off"]
    reason: str | None
    """Why it is limited or off."""
    requested: Value | None
    """What was last asked of this boot of the engine; null: nothing."""
    fallback: Value | None
    """What the engine goes back to when its daemon dies."""
    override: OverrideOut | None
    last: DecisionOut | None
    """The last tick's decision on it; null: nobody proposed anything."""


class KnobsOut(Answer):
    """All knobs that the engine lists; none while it does not answer."""

    version: str
    """Changes with every value, boot and override: what If-Match compares."""
    boot_id: str | None
    generation: int | None
    knobs: list[KnobOut]


class OverriddenOut(Answer):
    """What came of it, by knob, and all knobs after it."""

    decisions: dict[str, DecisionOut]
    now: KnobsOut


class Override(Body):
    """Override knobs, all or none, for a time."""

    values: Annotated[
        dict[Name, Wanted], Field(min_length=1, max_length=64, json_schema_extra={"additionalProperties": False})
    ]
    """By name; "no limit" switches a limit off."""
    ttl_s: Annotated[float, Field(ge=LEAST_TTL_S, le=MOST_TTL_S)] = DEFAULT_TTL_S
    comment: Comment = ""
