"""ETag, If-Match and If-None-Match.

Belongs here: reading these headers. Never: what a version is made of.
"""

from __future__ import annotations

import re

TAG = re.compile(r'(W/)?"([!#-~]*)"')


def quoted(version: str) -> str:
    """A version as ETag writes it."""
    return f'"{version}"'


def wanted(if_match: str | None, current: str) -> str | None:
    """The version that a change rests on: None for any. Of several it is the current one, where that is among them.

    One without its quotes is taken as it is; what is no version of ours is then none that is current.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    # A weak tag says that two versions are alike, not that they are one: it never matches for a change.
    named = [version for weak, version in TAG.findall(if_match) if not weak]
    return current if current in named else (named or [if_match])[0]


def unchanged(if_none_match: str | None, current: str) -> bool:
    """Whether the caller has this version already."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or current in [version for _weak, version in TAG.findall(if_none_match)]
