"""Every change that an operator asks for goes into the audit, whatever came of it; it is answered once it is on disk.

Belongs here: who asks, making the entry, waiting for it. Never: keeping entries (store/audit.py), who may ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from controller import clock as system_clock
from controller.operations.events import EventKind, Events
from controller.operations.plain import plain
from domain.audit import Action
from domain.errors import GovernorError
from store.pending import Receipt

Keep = Callable[[Action], Receipt]
"""Hands an entry to the history's writer, and does not wait for the disk."""
Settled = Callable[[Receipt], Awaitable[object]]
"""Waits for the disk, at most as long as an answer may."""


def _some_id() -> str:
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as far as it is known, without a secret: `admin token from 127.0.0.1`, `SIGHUP`."""

    actor: str
    request_id: str = field(default_factory=_some_id)
    """Tells this request from every other: the face's, so that its log, its answer and the audit name it alike."""


class Audit:
    """One for the daemon's life."""

    def __init__(
        self, keep: Keep, settled: Settled, events: Events, clock: Callable[[], system_clock.Now] = system_clock.now
    ) -> None:
        self._keep = keep
        self._settled = settled
        self._events = events
        self._clock = clock

    @asynccontextmanager
    async def entry(
        self, who: Caller, action: str, target: str, detail: Mapping[str, Any] | None = None
    ) -> AsyncIterator[None]:
        """Around a change: `ok`, or the sentence of what it raised, is written at its end; the error goes on.

        The entry comes after all else that the change handed over, so that all of it is on disk when this is left: what
        was answered outlives the daemon. A history that is broken or slow, which the loop says, is not waited for long.

        `action` is a word or two, as `knobs.set`; `target` what it is done to; `detail` what was asked for.
        """
        at, result, answered = self._clock().wall, "failed", True
        try:
            yield
            result = "ok"
        except asyncio.CancelledError:
            result, answered = "not answered: the caller went away, or the daemon ended", False
            raise
        except GovernorError as error:
            result = str(error)
            raise
        except Exception as error:
            result = f"failed: {type(error).__name__}: {error}"
            raise
        finally:
            # What was asked for may hold what no database and no listener can read.
            receipt = self.note(Action(at, who.actor, action, target, result, plain(detail or {}), who.request_id))
            if answered:
                await self._settled(receipt)

    def note(self, action: Action) -> Receipt:
        """An entry that was made elsewhere; the disk is not waited for."""
        receipt = self._keep(action)
        self._events.publish(
            EventKind.ACTION,
            {
                "at": action.at.isoformat(),
                "actor": action.actor,
                "action": action.action,
                "target": action.target,
                "detail": dict(action.detail),
                "result": action.result,
                "request_id": action.request_id,
            },
        )
        return receipt


@dataclass(frozen=True, slots=True)
class Stamp:
    """When an operator changed something, and who."""

    at: datetime
    actor: str
    comment: str = ""
