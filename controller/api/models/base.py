"""What every body and query shares: how a number that may be a limit is written, a time, a text.

Belongs here: those types. Never: a resource's fields.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from controller import clock
from controller.operations.plain import NO_LIMIT_WORD, plain

TEXT = r"^[^\x00-\x1f\x7f]*$"
"""No control characters: it is shown in terminals and kept in databases."""
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MOMENT = (
    r"^([0-9]{1,6}[smhd]|[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]"
    r"(:[0-5][0-9](\.[0-9]{1,6})?)?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])?)$"
)
FIRST, LAST = datetime(1970, 1, 2, tzinfo=UTC), datetime(2999, 12, 31, tzinfo=UTC)
"""What a database and every calendar can reckon with."""


class Answer(BaseModel):
    """A body that is answered: made from an operation's value by its attributes."""

    model_config = ConfigDict(
        from_attributes=True,
        extra="forbid",
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
    )


def as_json(body: BaseModel) -> bytes:
    """A body as it is sent."""
    return body.__pydantic_serializer__.to_json(body, by_alias=True)


class Asked(BaseModel):
    """What a path and a query ask; every value comes as text."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Body(BaseModel):
    """What a request's body asks. Strict: a word is no number, and a number no word."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


_NUMBER: dict[str, Any] = {"type": "number"}
_LIMIT: dict[str, Any] = {"anyOf": [_NUMBER, {"const": NO_LIMIT_WORD}]}

Value = Annotated[float, PlainSerializer(plain), WithJsonSchema(_LIMIT, mode="serialization")]
"""A knob's value: a number, or no limit."""
Evidence = Annotated[
    dict[str, float | str | None],
    PlainSerializer(plain),
    WithJsonSchema(
        {"type": "object", "additionalProperties": {"type": ["number", "string", "null"]}}, mode="serialization"
    ),
]
"""Numbers and words by name."""
Wanted = Annotated[float, Field(allow_inf_nan=False)] | Literal["no limit"]
"""A knob's value as a request writes it."""
Text = Annotated[str, StringConstraints(max_length=255, pattern=TEXT)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
"""Of a knob, a policy, a signal."""
Comment = Annotated[str, StringConstraints(max_length=500, pattern=TEXT)]
Numbers = dict[str, float | None]


class Named(Asked):
    """One thing by its name."""

    name: Name


def _faulty(said: str) -> PydanticCustomError:
    """What the OpenAPI document tells: the caller could have known."""
    return PydanticCustomError("text", "must be {said}", {"said": said})


def _moment(text: object) -> object:
    if not isinstance(text, str):
        return text
    if re.fullmatch(MOMENT, text, re.ASCII) is None:
        raise _faulty("a time as 2026-01-31T08:00Z, or so long ago: 90s, 30m, 8h, 2d")
    try:
        if text[-1] in UNITS_S:
            at = clock.now().wall - timedelta(seconds=int(text[:-1]) * UNITS_S[text[-1]])
        else:
            at = datetime.fromisoformat(text)
            at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"there is no such time: {error}") from error
    if not FIRST <= at <= LAST:
        raise ValueError(f"must be between {FIRST:%Y} and {LAST:%Y}")
    return at


Moment = Annotated[
    AwareDatetime,
    BeforeValidator(_moment),
    WithJsonSchema(
        {"type": "string", "pattern": MOMENT, "examples": ["2026-01-31T08:00:00Z", "24h"]}, mode="validation"
    ),
]
"""A time, in UTC without a zone, or so long ago: 90s, 30m, 8h, 2d."""


def _whole(value: object) -> object:
    """JSON has one kind of number: 2.0 is 2."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _written(pattern: str, said: str) -> BeforeValidator:
    """A query has text alone: what Python would read as a number or a word of its own is not taken."""

    def check(text: object) -> object:
        if isinstance(text, str) and re.fullmatch(pattern, text, re.ASCII) is None:
            raise _faulty(said)
        return text

    return BeforeValidator(check)


# Last in an annotation: the bounds are then the number's own, and the OpenAPI document shows them.
WHOLE = BeforeValidator(_whole)
DIGITS = _written(r"-?[0-9]{1,18}", "a whole number")
NUMBER = _written(r"-?[0-9]{1,18}(\.[0-9]{1,18})?([eE][-+]?[0-9]{1,3})?", "a number")
Flag = Annotated[bool, _written("true|false", "true or false")]
