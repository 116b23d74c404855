"""What the settings' classes say of their keys, so that nothing is written twice.

Belongs here: reading meanings, bounds and choices from the classes. Never: a meaning of its own.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo


def table_meaning(table: type[BaseModel]) -> str:
    """The class' own words."""
    return _without_none(inspect.cleandoc(table.__doc__ or ""))


def meaning(table: type[BaseModel], key: str) -> str:
    """What a key means; empty where its name says it."""
    field = table.model_fields[key]
    said = field.description or _docstrings(table).get(key, "")
    return _without_none(said)


def _without_none(text: str) -> str:
    """On one line, and without Python's None, which TOML has no word for."""
    line = re.sub(r"(^|[.?!] )None\b", r"\1Not set", " ".join(text.split()))
    return re.sub(r"\bNone\b", "not set", line)


def limits(field: FieldInfo) -> str:
    """Its bounds and choices in words; empty where there are none."""
    said = [*_bounds(field), *_choices(field.annotation)]
    return ", ".join(said)


def nested(annotation: Any) -> type[BaseModel] | None:
    """The class of a table within a table; None for a plain key."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return None


@cache
def _docstrings(table: type[BaseModel]) -> Mapping[str, str]:
    """The string under each attribute, of the class and those above it."""
    found: dict[str, str] = {}
    for kind in reversed(table.__mro__):
        if issubclass(kind, BaseModel) and kind.__module__.partition(".")[0] != "pydantic":
            found |= _own_docstrings(kind)
    return found


def _own_docstrings(kind: type) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):  # made at run time, or shipped without its source
        return {}
    body = ast.parse(source).body[0]
    if not isinstance(body, ast.ClassDef):
        return {}
    return {
        above.target.id: inspect.cleandoc(below.value.value)
        for above, below in zip(body.body, body.body[1:], strict=False)
        if isinstance(above, ast.AnnAssign)
        and isinstance(above.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def _bounds(field: FieldInfo) -> Iterator[str]:
    for one in _metadata(field):
        match one:
            case Gt():
                yield f"over {one.gt:.10g}"
            case Ge():
                yield f"at least {one.ge:.10g}"
            case Lt():
                yield f"under {one.lt:.10g}"
            case Le():
                yield f"at most {one.le:.10g}"


def _metadata(field: FieldInfo) -> Iterator[Any]:
    """Of the key itself, and of what it is where it may be absent."""
    yield from field.metadata
    for option in get_args(field.annotation):
        for one in getattr(option, "__metadata__", ()):
            yield from one.metadata if isinstance(one, FieldInfo) else (one,)


def _choices(annotation: Any) -> Iterator[str]:
    for option in (annotation, *get_args(annotation)):
        if get_origin(option) is Literal:
            yield "one of " + ", ".join(map(str, get_args(option)))
        elif isinstance(option, type) and issubclass(option, Enum):
            yield "one of " + ", ".join(str(one.value) for one in option)
