"""What the checks came to.

Belongs here: those models. Never: a check.
"""

from __future__ import annotations

from pydantic import AwareDatetime

from controller.api.models.base import Answer
from controller.preflight.result import State


class ResultOut(Answer):
    """One check and how it came out."""

    name: str
    state: State
    why: str
    """A sentence, with the numbers that it rests on."""
    cure: str | None
    """A command that mends it. It is never run."""
    asks: str
    """What has to hold."""
    source: str
    """Who asks for it."""


class CheckOut(Answer):
    """The last run."""

    at: AwareDatetime | None
    """When it was; null: there was none yet."""
    state: State
    """Fail where one failed, else warn where one warns, else pass; unknown before the first run."""
    worse: list[str]
    """Checks that were good at an earlier run and are bad now."""
    results: list[ResultOut]
