"""An operator's word on knobs, for a limited time: given to the arbiter, kept over restarts.

Belongs here: which are in force, and their place in the history. Never: what one is worth beside a policy
(policies/guards), checking what is asked (controller/operations/knobs.py).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from controller.clock import Now
from controller.deciding.arbiter import Arbiter
from controller.history.memory import Memory
from domain.errors import HistoryUnavailable
from domain.knobs import NO_LIMIT, TRAITS
from policies.guards import Override
from policies.trial import shown

logger = logging.getLogger(__name__)

NAME = "overrides"
"""Its name among the values that the history keeps."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One that holds. `until` is for people and for a restart; the seconds until then are counted by the monotonic
    clock.
    """

    override: Override
    set_at: datetime
    until: datetime
    actor: str
    comment: str = ""


class Overrides:
    """One for the daemon's life, as is its arbiter."""

    def __init__(self, memory: Memory, arbiter: Arbiter) -> None:
        self._memory = memory
        self._arbiter = arbiter
        self._unread = False
        self.standing: dict[str, Standing] = {}
        """By knob."""

    @property
    def kept(self) -> bool:
        """The history knows: they would survive a restart of the daemon."""
        return self._memory.written(NAME)

    async def restore(self, now: Now) -> None:
        """Take up what held when the daemon ended; asked again at each tick until the history answers."""
        unread, self._unread = self._unread, False
        try:
            stored = await self._memory.get(NAME)
            found = [] if stored is None else [_read(knob, one, now) for knob, one in stored.items()]
        except HistoryUnavailable as error:
            self._unread = True
            if not unread:
                logger.error("overrides: which of them held is not known yet: %s", error)
            return
        except (KeyError, TypeError, ValueError) as error:
            logger.error("overrides: cannot tell which held: %s", error)
            return
        for one in found:
            knob = one.override.knob
            if one.override.until_s > now.monotonic_s and knob not in self.standing:
                self._take(one)
                logger.warning("override: %s stays at %s until %s", knob, shown(one.override.value), one.until)
        if unread and self.standing:
            self._memory.put(NAME, now.wall, self._written())

    async def give(self, now: Now, values: Mapping[str, float], ttl_s: float, actor: str, comment: str) -> None:
        """Hold knobs at values from the next tick on, in place of what was said of them before."""
        until = now.wall + timedelta(seconds=ttl_s)
        for knob, value in values.items():
            one = Standing(Override(knob, value, now.monotonic_s + ttl_s), now.wall, until, actor, comment)
            self._take(one)
            logger.warning("override: %s is held at %s for %.0f s, by %s", knob, shown(value), ttl_s, actor)
        await self._keep(now)

    async def lift(self, now: Now, knobs: Iterable[str], why: str) -> None:
        """End these before their time."""
        for knob in knobs:
            if self.standing.pop(knob, None) is not None:
                self._arbiter.lift(knob)
                logger.warning("override: %s is let go: %s", knob, why)
        await self._keep(now)

    async def put_back(self, now: Now, before: Mapping[str, Standing | None]) -> None:
        """As it was before they were given: what the engine refuses is not to be tried again and again."""
        for knob, one in before.items():
            self._arbiter.lift(knob)
            self.standing.pop(knob, None)
            if one is not None:
                self._take(one)
        await self._keep(now)

    async def settle(self, now: Now) -> None:
        """Before a tick decides: what has run out is forgotten, what could not be read is asked for again."""
        if self._unread:
            await self.restore(now)
        over = [knob for knob, one in self.standing.items() if one.override.until_s <= now.monotonic_s]
        for knob in over:
            del self.standing[knob]
            self._arbiter.lift(knob)
            logger.info("override: of %s has run out", knob)
        if over and not self._unread:
            self._memory.put(NAME, now.wall, self._written())

    def _take(self, one: Standing) -> None:
        self.standing[one.override.knob] = one
        self._arbiter.override(one.override)

    async def _keep(self, now: Now) -> None:
        if self._unread:
            return  # what is kept there may hold more than is known here
        await self._memory.put_now(NAME, now.wall, self._written())

    def _written(self) -> dict[str, Any] | None:
        return {knob: _plain(one) for knob, one in self.standing.items()} or None


def _plain(one: Standing) -> dict[str, Any]:
    value = one.override.value
    return {
        "value": None if math.isinf(value) else value,  # JSON knows no infinity: no limit is null
        "set_at": one.set_at.isoformat(),
        "until": one.until.isoformat(),
        "actor": one.actor,
        "comment": one.comment,
    }


def _read(knob: str, stored: Mapping[str, Any], now: Now) -> Standing:
    """A clock that was set back meanwhile makes none last longer than it was given for."""
    if knob not in TRAITS:
        raise ValueError(f"there is no knob {knob}")
    value = NO_LIMIT if stored["value"] is None else float(stored["value"])
    set_at, until = datetime.fromisoformat(stored["set_at"]), datetime.fromisoformat(stored["until"])
    left_s = min((until - now.wall).total_seconds(), (until - set_at).total_seconds())
    return Standing(Override(knob, value, now.monotonic_s + left_s), set_at, until, stored["actor"], stored["comment"])
