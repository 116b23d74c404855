"""The bodies of the RPC, and the queries: from bytes to checked Python.

Here: JSON and the shape of each body. Never here: whether a knob or a value exists; the engine core knows that.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn
from urllib.parse import parse_qs

from . import errors

MAX_BODY_BYTES = 64 * 1024
LEASE_S_BOUNDS = (1, 3600)

_PATCH_KEYS = ("boot_id", "generation", "lease_s", "knobs")
_PATCH_OPTIONAL = ("holder",)
_LEASE_KEYS = ("boot_id", "lease_s")
_LEASE_OPTIONAL = ("fallback", "holder", "instead_of")
_HOLDER_CHARS = 200
_FREEZE_KEYS = ("boot_id", "frozen")
_PURGE_KEYS = ("boot_id", "ratio")
_PURGE_OPTIONAL = ("preempt",)
_MOST_PREEMPTED = 2**31 - 1
_STATS_KEYS = ("since", "allocator")
_CURSOR_DIGITS = 15


def parse_patch(body: bytes) -> dict[str, Any]:
    """The body of PATCH runtime: `boot_id`, `generation`, `lease_s`, `knobs`, and `holder`, None when not named."""
    patch = _object(body, _PATCH_KEYS, _PATCH_OPTIONAL)
    _string("boot_id", patch["boot_id"])
    if type(patch["generation"]) is not int:
        raise errors.wrong_type("generation", patch["generation"], "an integer", key="generation")
    _lease_s(patch["lease_s"])
    _mapping("knobs", patch["knobs"])
    _names(patch, _PATCH_OPTIONAL)
    return {"holder": None, **patch}


def parse_lease(body: bytes) -> dict[str, Any]:
    """The body of POST lease: `boot_id`, `lease_s`, and `fallback`, `holder`, `instead_of`, None when not named."""
    lease = _object(body, _LEASE_KEYS, _LEASE_OPTIONAL)
    _string("boot_id", lease["boot_id"])
    _lease_s(lease["lease_s"])
    if "fallback" in lease:
        _mapping("fallback", lease["fallback"])
    _names(lease, ("holder", "instead_of"))
    return {**dict.fromkeys(_LEASE_OPTIONAL), **lease}


def parse_freeze(body: bytes) -> dict[str, Any]:
    """The body of POST freeze: `boot_id`, `frozen`."""
    freeze = _object(body, _FREEZE_KEYS)
    _string("boot_id", freeze["boot_id"])
    if type(freeze["frozen"]) is not bool:
        raise errors.wrong_type("frozen", freeze["frozen"], "true or false", key="frozen")
    return freeze


def parse_stats(query: bytes) -> dict[str, Any]:
    """The query of GET stats: `since`, by boot_id or "*" for all, and `allocator`."""
    try:
        given = parse_qs(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), max_num_fields=8)
    except ValueError as error:
        raise errors.wrong_type("the query", query, "of the form name=value", key="query") from error
    for key in given:
        if key not in _STATS_KEYS:
            raise errors.unknown_key(key, _STATS_KEYS)
    allocator = given.get("allocator", ["0"])[-1]
    if allocator not in ("0", "1"):
        raise errors.wrong_type("allocator", allocator, "0 or 1", key="allocator")
    since = given.get("since", [""])[-1]
    return {"since": _cursor(since), "allocator": allocator == "1"}


def _cursor(text: str) -> dict[str, int]:
    """`12` is a record number for every engine core; `BOOT_ID:12,BOOT_ID:40` one for each."""
    numbers = {}
    for part in text.split(",") if text else ():
        boot_id, _, number = part.rpartition(":")
        if not (number.isascii() and number.isdecimal() and len(number) <= _CURSOR_DIGITS):
            raise errors.wrong_type("since", text, "a record number, or the cursor of an answer", key="since")
        numbers[boot_id or "*"] = int(number)
    return numbers


def parse_purge(body: bytes) -> dict[str, Any]:
    """The body of POST purge: `boot_id`, `ratio`, and `preempt`, 0 when it was not named."""
    purge = {"preempt": 0, **_object(body, _PURGE_KEYS, _PURGE_OPTIONAL)}
    _string("boot_id", purge["boot_id"])
    ratio, preempt = purge["ratio"], purge["preempt"]
    if type(ratio) is not int and type(ratio) is not float:
        raise errors.wrong_type("ratio", ratio, "a number", key="ratio")
    if not 0 <= ratio <= 1:
        raise errors.out_of_bounds("ratio", ratio, 0, 1, key="ratio")
    if type(preempt) is not int:
        raise errors.wrong_type("preempt", preempt, "an integer", key="preempt")
    if not 0 <= preempt <= _MOST_PREEMPTED:
        raise errors.out_of_bounds("preempt", preempt, 0, _MOST_PREEMPTED, key="preempt")
    return purge


def _object(body: bytes, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    known = required + optional
    parsed = _json(body)
    if type(parsed) is not dict:
        raise errors.wrong_type("the body", type(parsed).__name__, "a JSON object")
    for key in parsed:
        if key not in known:
            raise errors.unknown_key(key, known)
    for key in required:
        if key not in parsed:
            raise errors.missing_key(key)
    return parsed


def _json(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise errors.malformed("it is nested too deeply") from None
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
        raise errors.malformed(str(error)) from error


def _no_constant(name: str) -> NoReturn:
    """NaN and the infinities: Python reads them, JSON has no such thing, and no knob has such a value."""
    raise errors.wrong_type("a number", name, "a finite number")


def _string(key: str, value: object) -> None:
    if type(value) is not str:
        raise errors.wrong_type(key, value, "a string", key=key)


def _names(body: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Who somebody is: short, so that it can be told in a message."""
    for key in keys:
        if key in body:
            _string(key, body[key])
            if not 1 <= len(body[key]) <= _HOLDER_CHARS:
                raise errors.out_of_bounds(f"the length of {key}", len(body[key]), 1, _HOLDER_CHARS, key=key)


def _mapping(key: str, value: object) -> None:
    if type(value) is not dict:
        raise errors.wrong_type(key, value, "an object", key=key)


def _lease_s(value: object) -> None:
    low, high = LEASE_S_BOUNDS
    if type(value) is not int and type(value) is not float:
        raise errors.wrong_type("lease_s", value, "a number of seconds", key="lease_s")
    if not (math.isfinite(value) if type(value) is float else True) or not low <= value <= high:
        raise errors.out_of_bounds("lease_s", value, low, high, key="lease_s")
