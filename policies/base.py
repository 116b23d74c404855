"""The interface of a policy and the base of its settings.

Belongs here: what all policies share. Never: the rules of one.
"""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from domain.decision import Proposal
from domain.view import View


class PolicySettings(BaseModel):
    """Frozen; an unknown key is an error that names it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Policy(Protocol):
    """Pure: the same state and view give the same answer, so a recorded history can be replayed."""

    name: str

    def initial_state(self) -> Any:
        """The state before the first view."""
        ...

    def decide(self, state: Any, view: View) -> tuple[Any, tuple[Proposal, ...]]:
        """The next state and at most one proposal for each knob, holds included."""
        ...
