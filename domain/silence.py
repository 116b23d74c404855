"""What picks alerts by their labels, and the silences that are made of it.

Belongs here: those values. Never: reading them from text and applying them (alerts/matching.py), SQL, HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Matcher:
    """One comparison with one label, in Alertmanager's four fields. A label that is not there counts as empty."""

    name: str
    value: str
    is_regex: bool = False
    """`value` is a regular expression that the whole label has to match."""
    is_equal: bool = True
    """False: picks what does not match."""

    def __str__(self) -> str:
        operator = ("=" if self.is_equal else "!") + ("~" if self.is_regex else "" if self.is_equal else "=")
        quoted = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{self.name}{operator}"{quoted}"'


@dataclass(frozen=True, slots=True)
class Silence:
    """From `starts_at` until just before `ends_at` nobody is told of alerts that every matcher picks."""

    matchers: tuple[Matcher, ...]
    starts_at: datetime
    ends_at: datetime
    created_by: str = ""
    comment: str = ""
    id: int | None = None
    """None: not stored yet."""
