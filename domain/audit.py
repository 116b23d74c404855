"""What an operator asked for, and what came of it.

Belongs here: one entry of the audit. Never: who may ask (controller/api/access.py), how it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Action:
    """One call of the API or one command that changed something. It holds no secret: not the token, no password."""

    at: datetime
    actor: str
    """Who, as far as it is known: the peer's address, or the user at the command line."""
    action: str
    """What, in a word or two: `rollback`, `gpu.release`, `db.prune`."""
    target: str
    """What it was done to: a route, a knob, a history."""
    result: str
    """`ok`, or the sentence of the refusal or failure."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What was asked for, where it takes arguments."""
    request_id: str | None = None
    """Tells this request from every other, so that writing it twice makes one row."""
    node: str = ""
    """Whose history it went to; filled when it is read back."""
