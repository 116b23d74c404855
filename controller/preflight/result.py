"""What a check is, and what it answers.

Belongs here: these values, and how an answer comes about that never is an exception. Never: what is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from controller.preflight.surroundings import Surroundings


class State(StrEnum):
    """How a check came out. `unknown` is no pass: it could not be looked at."""

    PASS = "pass"  # noqa: S105 (no password)
    WARN = "warn"
    """It works, and something is lost."""
    FAIL = "fail"
    """A rule that must hold is broken, or something does not work."""
    NOT_APPLICABLE = "not_applicable"
    """There is nothing here that it could be true of."""
    UNKNOWN = "unknown"


PASS, WARN, FAIL = State.PASS, State.WARN, State.FAIL
NOT_APPLICABLE, UNKNOWN = State.NOT_APPLICABLE, State.UNKNOWN


class DoesNotApply(Exception):
    """Raised while a check looks: there is nothing here that it could be true of. The text is the reason."""


class NotKnown(Exception):
    """Raised while a check looks: what it rests on cannot be seen. The text is the reason."""

    def __init__(self, why: str, cure: str | None = None) -> None:
        super().__init__(why)
        self.cure = cure


@dataclass(frozen=True, slots=True)
class Found:
    """A check's answer. `why` is a sentence with its numbers; `cure` a command that mends it: printed, never run."""

    state: State
    why: str
    cure: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the list. `states` are all that it can come out with, when nothing fails in it."""

    name: str
    asks: str
    """What has to hold."""
    source: str
    """Who asks for it: a seed's line, or a field case."""
    states: frozenset[State]
    look: Callable[[Surroundings], Found]

    def answer(self, around: Surroundings) -> Found:
        """Look. Never raises: what goes wrong is `unknown` with the error."""
        try:
            return self.look(around)
        except DoesNotApply as reason:
            return Found(NOT_APPLICABLE, str(reason))
        except NotKnown as reason:
            return Found(UNKNOWN, str(reason), reason.cure)
        except Exception as error:
            return Found(UNKNOWN, f"it could not be looked at: {type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class Result:
    """One check and its answer."""

    name: str
    state: State
    why: str
    cure: str | None
    asks: str
    source: str

    @classmethod
    def of(cls, check: Check, found: Found) -> Result:
        """Both together."""
        return cls(check.name, found.state, found.why, found.cure, check.asks, check.source)


@dataclass(frozen=True, slots=True)
class Report:
    """One run over several checks."""

    at: datetime
    results: tuple[Result, ...]

    @property
    def state(self) -> State:
        """Fail where one failed, else warn where one warns, else pass: what is unknown decides nothing."""
        return worst(result.state for result in self.results)


def worst(states: Iterable[State]) -> State:
    """Of several: fail before warn before pass."""
    found = set(states)
    return next((state for state in (FAIL, WARN) if state in found), PASS)
