"""A settings file with every key commented, and some of them set.

Belongs here: TOML, comments made of what the settings' classes say. Never: what is found on a machine, a meaning of its
own.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from controller.cli import field_docs

WIDTH = 110

Chosen = Mapping[str, Any]
"""Dotted key to its value."""
Notes = Mapping[str, Sequence[str]]
"""Dotted key, of a table too, to sentences that stand above it: what was found."""


def write(settings: type[BaseModel], chosen: Chosen, notes: Notes) -> str:
    """The whole file. Keys that are not chosen show their default behind a #."""
    lines: list[str] = []
    for note in notes.get("", ()):
        lines += _comment(note)
    lines += ["", *_comment('A key behind a "#" shows its default; take the "#" away to set it.')]
    lines += _table(settings, "", chosen, notes)
    return "\n".join(lines).rstrip() + "\n"


def _table(table: type[BaseModel], prefix: str, chosen: Chosen, notes: Notes) -> Iterator[str]:
    plain = [key for key, field in table.model_fields.items() if field_docs.nested(field.annotation) is None]
    if prefix:
        yield ""
        said = field_docs.table_meaning(table)
        yield from () if said == f"`[{prefix}]`." else _comment(said)
        for note in notes.get(prefix, ()):
            yield from _comment(note)
        yield f"[{prefix}]"
    for key in plain:
        yield from _key(table, key, f"{prefix}.{key}" if prefix else key, chosen, notes)
    for key, field in table.model_fields.items():
        if (inner := field_docs.nested(field.annotation)) is not None:
            yield from _table(inner, f"{prefix}.{key}" if prefix else key, chosen, notes)
    yield from _optional(table, prefix, chosen, notes)


def _key(table: type[BaseModel], key: str, dotted: str, chosen: Chosen, notes: Notes) -> Iterator[str]:
    field = table.model_fields[key]
    default = field.get_default(call_default_factory=True)
    if _is_table(field.annotation):
        return
    yield ""
    said = [field_docs.meaning(table, key), field_docs.limits(field)]
    words = ". ".join(one[:1].upper() + one[1:].rstrip(".") for one in said if one)
    if words:
        yield from _comment(f"{words}.")
    for note in notes.get(dotted, ()):
        yield from _comment(note)
    if dotted in chosen:
        yield f"{key} = {_toml(chosen[dotted])}"
    elif default is None or default is PydanticUndefined:
        yield f"# {key} is not set by default."
    elif _is_plain(default):
        yield f"#{key} = {_toml(default)}"
    else:
        yield f"# {key} is as shipped: {len(default)} entries; the documentation has them."


def _optional(table: type[BaseModel], prefix: str, chosen: Chosen, notes: Notes) -> Iterator[str]:
    """Tables that may be absent: written where something in them is chosen."""
    for key, field in table.model_fields.items():
        inner = _optional_table(field.annotation)
        dotted = f"{prefix}.{key}" if prefix else key
        if inner is None:
            continue
        if any(name.startswith(f"{dotted}.") for name in chosen):
            yield from _table(inner, dotted, chosen, notes)
        else:
            yield ""
            yield from _comment(field_docs.table_meaning(inner))
            yield f"#[{dotted}]"


def _optional_table(annotation: Any) -> type[BaseModel] | None:
    found = [field_docs.nested(one) for one in getattr(annotation, "__args__", ())]
    options = [one for one in found if one is not None]
    return options[0] if options and type(None) in annotation.__args__ else None


def _is_table(annotation: Any) -> bool:
    return _optional_table(annotation) is not None


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_plain(one) and not isinstance(one, list | tuple | Mapping) for one in value)
    if isinstance(value, Mapping):
        return not value
    return isinstance(value, str | int | float | Enum | Path)


def _toml(value: Any) -> str:
    """As TOML writes a plain value; JSON writes most of them the same way."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml(one)}' for key, one in value.items())} }}" if value else "{}"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False)
