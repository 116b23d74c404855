"""The seeds' rollback as a state of the daemon: entered by one call, kept over restarts, undone by one call.

Static batch 8, budget min(now, 4096), queue 100, keep-alive off, in force and as the lease's fallback, so that they
outlive the daemon. Belongs here: that state and its place in the history. Never: who may call, HTTP, changing a knob.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from controller.history.memory import Memory
from domain.decision import Reason
from domain.errors import HistoryUnavailable
from domain.knobs import CONNECTION_CLOSE, MAX_NUM_BATCHED_TOKENS, MAX_NUM_QUEUED_REQS, MAX_NUM_SEQS, NO_LIMIT
from domain.runtime import EngineRuntime
from policies.static import Static, StaticSettings
from policies.trial import shown

logger = logging.getLogger(__name__)

NAME = "rollback"
"""Its name among the values that the history keeps."""
LEAVING_TICKS = 10
"""So many ticks of an engine that answers an undo tries to set the values from before; then the mode that is configured
goes on from what is.
"""


@dataclass(frozen=True, slots=True)
class Rollback:
    """`values` are held; `before` was in force on `boot_id` when it began, and comes back."""

    at: datetime
    values: Mapping[str, float]
    before: Mapping[str, float]
    boot_id: str | None
    leaving: bool = False
    """It is being undone: the values from before are set."""


class Rollbacks:
    """The one that is in force, if one is."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._unread = False
        self._tries = 0
        self.current: Rollback | None = None

    @property
    def kept(self) -> bool:
        """The history knows: it would survive a restart of the daemon."""
        return self._memory.written(NAME)

    async def restore(self) -> None:
        """Take up what was in force when the daemon ended; asked again at each tick until the history answers."""
        unread, self._unread = self._unread, False
        try:
            stored = await self._memory.get(NAME)
            self.current = None if stored is None else _read(stored)
        except HistoryUnavailable as error:
            self._unread = True
            if not unread:
                logger.error("rollback: cannot tell yet whether one was in force: %s", error)
        except (KeyError, TypeError, ValueError) as error:
            logger.error("rollback: cannot tell whether one was in force: %s", error)
        if self.current is not None:
            logger.warning("rollback: in force since %s, until it is undone", self.current.at.isoformat())

    async def enter(self, at: datetime, runtime: EngineRuntime | None, settings: StaticSettings) -> Rollback:
        """Begin one; one that is in force stays as it is, one that is being undone is taken up again."""
        self._unread = False
        if self.current is None:
            values = wanted(runtime, settings)
            before = {} if runtime is None else {name: _value(runtime, name) for name in values}
            for name in wanted(None, settings).keys() - values.keys():
                logger.warning("rollback: this engine cannot carry %s", name)
            known = {name: value for name, value in before.items() if value is not None}
            self.current = Rollback(at, values, known, runtime.boot_id if runtime is not None else None)
        else:
            self.current = replace(self.current, leaving=False)
        held = self.current.values.items()
        logger.warning("rollback: %s", ", ".join(f"{name}={shown(value)}" for name, value in held))
        await self._keep(at)
        return self.current

    async def leave(self, at: datetime) -> bool:
        """Begin to undo it; False when there is none."""
        if self.current is None:
            return False
        logger.warning("rollback: it is being undone")
        self.current = replace(self.current, leaving=True)
        self._tries = 0
        await self._keep(at)
        return True

    async def settle(self, at: datetime, runtime: EngineRuntime | None) -> bool:
        """After a tick's reading: True when an undo has come to its end, or a rollback was found that was in force when
        the daemon ended.
        """
        if self._unread and self.current is None:
            await self.restore()
            if self.current is not None:
                return True
        rollback = self.current
        if rollback is None or not rollback.leaving or runtime is None:
            return False  # while the engine does not answer nothing was tried
        self._tries += 1
        missing = _missing(rollback, runtime)
        if missing and self._tries <= LEAVING_TICKS:
            return False
        if missing:
            logger.warning("rollback: undone, but not back as before: %s", ", ".join(missing))
        else:
            logger.info("rollback: undone, the values from before are in force")
        self.current = None
        self._memory.put(NAME, at, None)
        return True

    async def _keep(self, at: datetime) -> None:
        await self._memory.put_now(NAME, at, None if self.current is None else _written(self.current))
        if not self.kept:
            logger.error("rollback: a restart of the daemon would not know of it before the history can be written")


def policy_of(rollback: Rollback, runtime: EngineRuntime | None) -> Static:
    """What is proposed while it is in force, or while it is being undone."""
    if not rollback.leaving:
        return Static(rollback.values, Reason.ROLLBACK_VALUES, "Rollback")
    values = rollback.before if runtime is None else targets(rollback, runtime)
    return Static(values, Reason.ROLLBACK_UNDONE, "Undoing the rollback")


def targets(rollback: Rollback, runtime: EngineRuntime) -> dict[str, float]:
    """What an undo sets: what was in force, or on another boot of the engine its start-up values."""
    same = runtime.boot_id == rollback.boot_id
    envelope = runtime.envelope
    found = {name: rollback.before.get(name) if same else None for name in rollback.values if name in envelope}
    return {name: envelope[name] if value is None else value for name, value in found.items()}


def _missing(rollback: Rollback, runtime: EngineRuntime) -> list[str]:
    """What an undo has not set yet."""
    return [name for name, value in targets(rollback, runtime).items() if _value(runtime, name) != value]


def wanted(runtime: EngineRuntime | None, settings: StaticSettings) -> dict[str, float]:
    """What a rollback that began now would hold: as far as the engine carries it, and inside its bounds."""
    values: dict[str, float] = {
        MAX_NUM_SEQS: settings.fixed_batch_size,
        MAX_NUM_BATCHED_TOKENS: settings.rollback_tokens,
        MAX_NUM_QUEUED_REQS: settings.rollback_queue,
    }
    if settings.rollback_connection_close:
        values[CONNECTION_CLOSE] = 1
    if runtime is None:
        return values
    for name in list(values):
        knob = runtime.knob(name)
        if knob is None or knob.value is None:
            del values[name]
        elif knob.maximum is not None:
            values[name] = min(values[name], knob.maximum)
    budget = _value(runtime, MAX_NUM_BATCHED_TOKENS)
    if budget is not None:
        values[MAX_NUM_BATCHED_TOKENS] = min(values[MAX_NUM_BATCHED_TOKENS], budget)
    return values


def _value(runtime: EngineRuntime, name: str) -> float | None:
    knob = runtime.knob(name)
    return knob.value if knob is not None else None


def _written(rollback: Rollback) -> dict[str, Any]:
    return {
        "at": rollback.at.isoformat(),
        "values": _plain(rollback.values),
        "before": _plain(rollback.before),
        "boot_id": rollback.boot_id,
        "leaving": rollback.leaving,
    }


def _read(stored: Mapping[str, Any]) -> Rollback:
    return Rollback(
        at=datetime.fromisoformat(stored["at"]),
        values=_numbers(stored["values"]),
        before=_numbers(stored["before"]),
        boot_id=stored["boot_id"],
        leaving=bool(stored["leaving"]),
    )


def _plain(values: Mapping[str, float]) -> dict[str, float | None]:
    """JSON knows no infinity: no limit is null."""
    return {name: None if math.isinf(value) else value for name, value in values.items()}


def _numbers(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: NO_LIMIT if value is None else value for name, value in values.items()}
