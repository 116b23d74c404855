"""Frozen dataclasses to what JSON can say and back, without loss.

Belongs here: the rules by type, compiled once for each. Never: which values are kept, what they mean.

A number stays of its type and to the last bit; a field that holds its default is left out, so that one added later is
read from an older text as its default.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, Union, get_args, get_origin, get_type_hints

Convert = Callable[[Any], Any]
PLAIN = (int, float, str, bool, type(None))


@cache
def encoder(hint: Any) -> Convert | None:
    """Value to JSON's types; None: it is already of those. Raises TypeError for a type there is no rule for."""
    return _build(hint, _dataclass_encoder, encoder, lambda _enum: None)


@cache
def decoder(hint: Any) -> Convert | None:
    """The way back; None: the value stays as it is."""
    return _build(hint, _dataclass_decoder, decoder, lambda enum: enum)


def encode(hint: Any, value: Any) -> Any:
    """A value as JSON's types say it."""
    convert = encoder(hint)
    return value if convert is None else convert(value)


def decode(hint: Any, stored: Any) -> Any:
    """The value that `encode` made this of."""
    convert = decoder(hint)
    return stored if convert is None else convert(stored)


def _build(
    hint: Any,
    of_dataclass: Callable[[Any], Convert],
    again: Callable[[Any], Convert | None],
    of_enum: Callable[[Any], Convert | None],
) -> Convert | None:
    origin, args = get_origin(hint), get_args(hint)
    if hint in PLAIN:
        return None
    if origin in (Union, types.UnionType):
        return _optional([again(arg) for arg in args], hint)
    if origin is tuple:
        many = len(args) == 2 and args[1] is Ellipsis
        return _tuple(again(args[0])) if many else _fixed([again(arg) for arg in args])
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(again(args[0]), again(args[1]))
    if isinstance(hint, type) and issubclass(hint, (str, int)) and issubclass(hint, Enum):
        return of_enum(hint)
    if is_dataclass(hint):
        return of_dataclass(hint)
    raise _no_rule(hint)


def _no_rule(hint: Any) -> TypeError:
    return TypeError(f"cannot write {hint} as JSON: there is no rule for this type")


def _optional(members: list[Convert | None], hint: Any) -> Convert | None:
    one = [member for member in members if member is not None]
    if not one:
        return None
    if len(one) > 1:
        raise _no_rule(hint)
    convert = one[0]
    return lambda value: None if value is None else convert(value)


def _tuple(item: Convert | None) -> Convert:
    return tuple if item is None else lambda values: tuple(map(item, values))


def _fixed(items: list[Convert | None]) -> Convert:
    """A tuple with a type for each place."""
    return lambda values: tuple(
        value if item is None else item(value) for item, value in zip(items, values, strict=True)
    )


def _mapping(key: Convert | None, value: Convert | None) -> Convert:
    if value is None:
        return dict if key is None else lambda items: {key(k): v for k, v in items.items()}
    if key is None:
        return lambda items: {k: value(v) for k, v in items.items()}
    return lambda items: {key(k): value(v) for k, v in items.items()}


def defaults(cls: Any) -> dict[str, Any]:
    """Each field's default; None for one that has none."""
    found: dict[str, Any] = {}
    for one in fields(cls):
        made = one.default_factory() if one.default_factory is not MISSING else one.default
        found[one.name] = None if made is MISSING else made
    return found


def _dataclass_encoder(cls: Any) -> Convert:
    hints, plain = get_type_hints(cls), defaults(cls)
    names = tuple(plain)
    known = tuple(plain.values())
    converts = [(name, convert) for name in names if (convert := encoder(hints[name])) is not None]
    get = attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)

    def encode(value: Any) -> dict[str, Any]:
        made = {name: v for name, v, d in zip(names, get(value), known, strict=True) if v is not d}
        for name, convert in converts:
            if name in made:
                made[name] = convert(made[name])
        return made

    return encode


def _dataclass_decoder(cls: Any) -> Convert:
    hints, plain = get_type_hints(cls), defaults(cls)
    converts = {name: decoder(hints[name]) for name in plain}

    def decode(stored: Mapping[str, Any]) -> Any:
        made = dict(plain)
        for name, value in stored.items():
            if name in plain:  # a field that this version no longer has says nothing to it
                convert = converts[name]
                made[name] = value if convert is None else convert(value)
        return cls(**made)

    return decode
