"""The mode, the policies, the settings, the rollback and the purge.

Belongs here: those models. Never: a rule.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from controller.api.models.base import DIGITS, NUMBER, WHOLE, Answer, Asked, Body, Comment, Name, Named, Value
from controller.api.models.decisions import DecisionOut
from controller.operations.purge import DEFAULT_RATIO, MOST_PREEMPTED
from domain.decision import Mode


class Remark(Body):
    """Why it is done, for the audit."""

    comment: Comment = ""


class StampOut(Answer):
    """When an operator changed something, and who."""

    at: AwareDatetime
    actor: str
    comment: str


class ModeOut(Answer):
    """`in_force` is `configured`, unless `because` says what stands over it."""

    in_force: Mode
    configured: Mode
    """The file's, or what an operator set at run time in its place."""
    file: Mode
    changed: StampOut | None
    """Null: the file's is configured."""
    survives_restart: bool
    """What was set at run time is kept in the history."""
    because: str | None
    """Why another one is in force."""
    maintenance: str | None
    """The maintenance window that is open."""
    maintenance_until: AwareDatetime | None
    effects: dict[str, str]
    """Each mode with a sentence that says what switching to it would do now."""


class ModeWanted(Body):
    """The mode to go on in."""

    mode: Mode
    comment: Comment = ""


class ChangedKeyOut(Answer):
    """One parameter that was changed at run time."""

    key: str
    """Dotted below the policy's table."""
    value: Any
    file: Any
    """What the settings file says in its place."""
    by: StampOut


class PolicyOut(Answer):
    """One table of `[policies]`."""

    name: str
    about: str
    third_party: bool
    enabled: bool | None
    """Null: it cannot be switched off."""
    runs: bool
    """Whether it proposes anything in the mode that is in force."""
    settings: dict[str, Any]
    defaults: dict[str, Any]
    schema_: dict[str, Any] = Field(alias="schema")
    """JSON schema of its table: types, bounds, what each key means."""
    changed: list[ChangedKeyOut]


class PoliciesOut(Answer):
    """Every table, shipped ones first."""

    policies: list[PolicyOut]


class PolicyChangesAsked(Named):
    """One key of what was changed at run time; without it all of them."""

    key: Name | None = None


class PolicyWanted(Body):
    """Parameters to change, all or none: as in the file, nested tables as objects. The policy's schema says which."""

    values: Annotated[dict[str, Any], Field(min_length=1, max_length=200)]
    comment: Comment = ""


class SettingsOut(Answer):
    """Every setting in force, as the file writes it. Paths of secrets are told, no secret is."""

    source: str
    settings: dict[str, Any]
    over_file: list[str]
    """Dotted keys that an operator changed at run time."""
    last_failure: str | None
    """Why the last reload was refused."""


class ReloadedOut(Answer):
    """What a reload did; keys are dotted."""

    source: str
    changed: list[str]
    """In force from now on."""
    at_next_start: list[str]
    over_file: list[str]
    """What an operator set at run time stays over the file's."""


class RollbackStateOut(Answer):
    """The rollback that is in force."""

    since: AwareDatetime
    values: dict[str, Value]
    undoing: bool
    survives_restart: bool


class HeldOut(Answer):
    """One knob that was set at the last tick, and what the engine reads of it."""

    knob: str
    wanted: Value | None
    observed: Value | None
    error: str | None


class StepOut(Answer):
    """One knob from what it reads to what it would be."""

    knob: str
    now: Value | None
    then: Value


class RollbackOut(Answer):
    """How the rollback stands, and what a call would do."""

    mode: Mode
    current: RollbackStateOut | None
    """Null: none is in force."""
    engine_answers: bool
    knobs: list[HeldOut]
    enter: list[StepOut]
    undo: list[StepOut]
    effects: list[str]
    """Sentences for the confirmation of whichever of the two is possible now."""


class PurgeAsked(Asked):
    """The purge that one thinks of."""

    ratio: Annotated[float, Field(ge=0, le=1), NUMBER] = DEFAULT_RATIO
    preempt: Annotated[int, Field(ge=0, le=MOST_PREEMPTED), DIGITS] = 0


class PurgeWanted(Body):
    """Evict that share of the free cached blocks of each engine core, and put back so many running requests."""

    ratio: Annotated[float, Field(ge=0, le=1)] = DEFAULT_RATIO
    preempt: Annotated[int, Field(ge=0, le=MOST_PREEMPTED), WHOLE] = 0
    comment: Comment = ""


class PurgePlanOut(Answer):
    """What a purge would do now."""

    ratio: float
    preempt: int
    effects: list[str]
    refusal: str | None
    """Why it cannot be done."""


class PurgedOut(Answer):
    """What it came to."""

    sentence: str
    decisions: list[DecisionOut]


class GpuOut(Answer):
    """`absence`: why no GPU is read, null when they are."""

    released: bool
    absence: str | None
