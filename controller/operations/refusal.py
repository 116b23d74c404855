"""Why something that was asked for is not done.

Belongs here: the error of every operation. Never: a status of HTTP or an exit code (the faces know those).
"""

from __future__ import annotations

from enum import StrEnum

from domain.errors import RecoverableError


class Kind(StrEnum):
    """What is in the way."""

    INVALID = "invalid"
    """What was asked for is out of bounds, of the wrong type or contradicts itself: `field` names the part."""
    UNKNOWN = "unknown"
    """There is no such knob, policy, decision, override."""
    CONFLICT = "conflict"
    """It cannot be done in the state that the daemon or the engine is in."""
    STALE = "stale"
    """The caller has not seen the last change: the version that it named is no longer current."""
    UNAVAILABLE = "unavailable"
    """The engine, the driver or the history does not answer now."""


class Refused(RecoverableError):
    """One sentence in three parts: what cannot be done, the reason, the remedy. Nothing was changed."""

    def __init__(self, kind: Kind, doing: str, reason: str, remedy: str, field: str | None = None) -> None:
        """`doing` goes after "cannot"; `field` is the part of what was asked for that is at fault."""
        super().__init__(f"cannot {doing}: {reason}; {remedy}")
        self.kind = kind
        self.doing = doing
        self.reason = reason
        self.remedy = remedy
        self.field = field
