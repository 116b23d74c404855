"""The rollback and its undo.

Belongs here: saying what they will do, doing it, how it stands. Never: what a rollback is
(controller/acting/rollback.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from controller.acting.rollback import targets, wanted
from controller.loop import Loop
from controller.operations.audit import Audit, Caller
from controller.operations.permission import steered_by_another
from controller.operations.refusal import Kind, Refused
from domain.decision import Mode
from domain.runtime import EngineRuntime
from policies.trial import shown


@dataclass(frozen=True, slots=True)
class Step:
    """One knob from what it reads to what it would be; NO_LIMIT for no limit, None: not known."""

    knob: str
    now: float | None
    then: float


@dataclass(frozen=True, slots=True)
class Held:
    """One knob that was set at the last tick, and what the engine reads of it."""

    knob: str
    wanted: float | None
    observed: float | None
    error: str | None


@dataclass(frozen=True, slots=True)
class RollbackState:
    """The one that is in force."""

    since: datetime
    values: Mapping[str, float]
    undoing: bool
    survives_restart: bool


@dataclass(frozen=True, slots=True)
class RollbackNow:
    """`current` None: none is in force. `enter` and `undo` say what each would do now, for a confirmation."""

    mode: Mode
    current: RollbackState | None
    engine_answers: bool
    knobs: tuple[Held, ...]
    enter: tuple[Step, ...]
    undo: tuple[Step, ...]
    effects: tuple[str, ...]
    """Sentences for the confirmation of whichever of the two is possible now."""


class RollbackSwitch:
    """One for the daemon's life."""

    def __init__(self, loop: Loop, audit: Audit) -> None:
        self._loop = loop
        self._audit = audit

    def state(self) -> RollbackState | None:
        """The one that is in force."""
        current, kept = self._loop.rollback
        return None if current is None else RollbackState(current.at, current.values, current.leaving, kept)

    def now(self) -> RollbackNow:
        """How it stands, and what a call would do."""
        current, runtime = self._loop.rollback[0], self._loop.observed.runtime
        enter = {} if current is not None else wanted(runtime, self._loop.settings.policies.static)
        undo = {} if current is None else dict(current.before) if runtime is None else targets(current, runtime)
        return RollbackNow(
            mode=self._loop.observed.mode,
            current=self.state(),
            engine_answers=runtime is not None,
            knobs=tuple(
                Held(one.knob, one.wanted, one.observed, one.error)
                for one in self._loop.observed.decisions
                if one.policy == "static"
            ),
            enter=_steps(enter, runtime),
            undo=_steps(undo, runtime),
            effects=_entering(enter, self._loop) if current is None else _undoing(undo, self._loop),
        )

    async def enter(self, who: Caller, comment: str = "") -> RollbackNow:
        """Static batch, small budget, bounded queue; in force as far as the engine lets it be when this returns.

        Raises Refused (CONFLICT) while another daemon steers the engine.
        """
        async with self._audit.entry(who, "rollback", "the engine", {"comment": comment}):
            if (other := steered_by_another(self._loop)) is not None:
                raise Refused(Kind.CONFLICT, "roll back", other.reason, other.remedy)
            await self._loop.roll_back()
            await self._loop.tick()  # sees the values
        return self.now()

    async def undo(self, who: Caller, comment: str = "") -> RollbackNow:
        """Back to the values from before and the configured mode. Raises Refused (CONFLICT) when none is in force."""
        async with self._audit.entry(who, "undo", "the engine", {"comment": comment}):
            if not await self._loop.undo():
                raise Refused(Kind.CONFLICT, "undo a rollback", "none is in force", "there is nothing to undo")
        return self.now()


def _steps(values: Mapping[str, float], runtime: EngineRuntime | None) -> tuple[Step, ...]:
    found = []
    for knob, then in values.items():
        now = runtime.knob(knob) if runtime is not None else None
        found.append(Step(knob, None if now is None else now.value, then))
    return tuple(found)


def _entering(values: Mapping[str, float], loop: Loop) -> tuple[str, ...]:
    return (
        f"Sets {_list(values)}, and holds them over restarts until it is undone.",
        f"Mode {loop.settings.mode} is suspended: no policy changes anything meanwhile.",
        "Running requests finish; the daemon's end leaves the engine at these values. One call undoes it.",
    )


def _undoing(values: Mapping[str, float], loop: Loop) -> tuple[str, ...]:
    return (
        f"Sets {_list(values)}, which was in force before the rollback, or the start-up values of an engine that "
        "restarted meanwhile.",
        f"Mode {loop.settings.mode} goes on.",
    )


def _list(values: Mapping[str, float]) -> str:
    return ", ".join(f"{knob} to {shown(value)}" for knob, value in values.items()) or "nothing"
