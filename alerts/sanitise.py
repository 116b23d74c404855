"""Makes any text fit for the wire: label names that Prometheus takes, text that UTF-8 holds, messages not too long.

Belongs here: those rules. Never: the format of one service (templates/formats.py), what a message says.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Set

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of the text around them."""
_HALF_ESCAPE = re.compile(r"(&[#\w]{0,8}|\\|%[0-9A-Fa-f]?)$")


def labels(pairs: Mapping[str, str]) -> dict[str, str]:
    """The same pairs under names of letters, digits and underscores, sorted; no two names fall together.

    A pair without a value is left out: to Prometheus an empty label is none.
    """
    told = {name: text(value) for name, value in pairs.items() if value and _NAME.fullmatch(name)}
    for name, value in sorted(pairs.items()):
        if value and not _NAME.fullmatch(name):
            told[_free_name(name, told.keys())] = text(value)
    return dict(sorted(told.items()))


def _free_name(name: str, taken: Set[str]) -> str:
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    if not plain or plain[0].isdigit():
        plain = f"_{plain}"
    free, digest = plain, name.encode("utf-8", "surrogatepass")
    while free in taken:
        digest = hashlib.sha256(digest).digest()
        free = f"{plain}_{digest.hex()[:8]}"
    return free


def text(value: str) -> str:
    """`value` without half surrogate pairs, which no UTF-8 can hold."""
    return _SURROGATE.sub("\ufffd", value)


def one_line(value: str) -> str:
    """`value` as one line that shows what it says: no control characters, white space as single spaces."""
    return _UNSEEN.sub("", re.sub(r"\s+", " ", text(value)))


def utf8_size(value: str) -> int:
    """Bytes in UTF-8."""
    return len(value.encode())


def utf16_size(value: str) -> int:
    """UTF-16 units: never fewer than the characters, however a service counts those."""
    return len(value.encode("utf-16-le")) // 2


def fit(value: str, limit: int, size: Callable[[str], int] = utf8_size) -> str:
    """`value` in at most `limit`: whole lines are left out at the end and counted, a first line too long is cut.

    `size` must add up: the size of two texts together is the sum of theirs.
    """
    if size(value) <= limit:
        return value
    lines = value.split("\n")
    room = limit - size(f"\n… {len(lines)} more lines")
    kept = 0
    for line in lines:
        room -= size(f"{line}\n")
        if room < 0:
            break
        kept += 1
    if kept:
        return "\n".join([*lines[:kept], f"… {len(lines) - kept} more lines"])
    return _cut(lines[0], limit, size)


def _cut(line: str, limit: int, size: Callable[[str], int]) -> str:
    room = limit - size("…")
    kept = 0
    for character in line:
        room -= size(character)
        if room < 0:
            break
        kept += 1
    # Half of `&amp;`, of `\*` or of `%2F` would show, or swallow what follows.
    return _HALF_ESCAPE.sub("", line[:kept]) + "…"
