"""Follows the engine cores' wanted state: asks once a second, puts it in force, reports, falls back when none answers.

Here: when to ask and what to do with the answer. Never here: how a knob is put in force (the parts), how a core is
reached (fanout).

The deadline of its own is DEADLINE_GRACE_S later than the core's: a renewal is seen at the next asking only, and a live
core's answer is the better one.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from vllm_governor_engine import errors
from vllm_governor_engine.log import get_logger

from .parts import Admission, Offer, Part, Situation, Wanted, off

PERIOD_S = 1.0
DEADLINE_GRACE_S = 2.0
_CONFIRMATIONS = 2  # an answer with news is put in force and reported at once

Ask = Callable[[Mapping[str, Any]], Awaitable[Sequence[Mapping[str, Any]]]]
"""Takes the report, answers what each engine core wants, in the order of their index."""


class Follower:
    """One API process's side of the knobs that act there."""

    def __init__(
        self, ask: Ask, parts: Sequence[Part], index: int = 0, rejected: Callable[[], int] = lambda: 0
    ) -> None:
        self._ask = ask
        self._parts = {part.name: part for part in parts}
        self._index = index
        self._rejected = rejected
        self._failed: dict[str, str] = {}
        self._applied: dict[str, int] = {}
        self._last: Sequence[Mapping[str, Any]] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._lock = asyncio.Lock()
        self._asked = False
        self.problems: list[str] = []
        """What of this process switched itself off, in words; shown in the runtime."""

    async def run(self) -> None:
        """Follow until cancelled. Nothing but the cancellation comes out."""
        # Several API processes start together; they need not ask together.
        await asyncio.sleep(PERIOD_S * random.random())  # noqa: S311 - spread, not a secret
        try:
            while True:
                await self.sync()
                await asyncio.sleep(PERIOD_S)
        finally:
            self._cancel_timer()

    async def sync(self) -> None:
        """Ask now and put the answer in force; a core that does not answer is left to the deadline."""
        self._asked = True
        async with self._lock:
            for _ in range(_CONFIRMATIONS):
                reported = dict(self._applied)
                try:
                    answers = await self._ask(self._report())
                    self._take(answers)
                except Exception as error:
                    get_logger().debug("governor: the engine core does not say what is wanted: %s", error)
                    return
                if self._applied == reported:
                    return

    @property
    def asked(self) -> bool:
        """True once the engine cores were asked, whether they answered or not."""
        return self._asked

    def _report(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "index": self._index,
            "applied": dict(self._applied),
            "rejected_total": self._rejected(),
            "degraded": [*self.problems, *(f"{name}: {why}" for name, why in self._failed.items())],
            "knobs": {name: self._offer(part).as_wire(name in self._failed) for name, part in self._parts.items()},
        }

    def _offer(self, part: Part) -> Offer:
        if part.name not in self._failed:
            try:
                return part.offer()
            except Exception as error:
                self._fail(part, f"it cannot be probed ({errors.shown(error)})")
        return off(self._failed[part.name])

    def _take(self, answers: Sequence[Mapping[str, Any]]) -> None:
        """Put the answers in force. Engine cores are set together, so they differ only while a call is under way."""
        self._last = list(answers)
        wanted = answers[0]["wanted"]
        self._put(wanted, "cap", max(int(core["api_processes"]) for core in answers))
        self._applied = {str(core["boot_id"]): int(core["generation"]) for core in answers}
        leases = [float(core["lease_s"]) for core in answers if core["lease_s"] is not None]
        self._cancel_timer()
        if leases:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(min(leases) + DEADLINE_GRACE_S, self._fall_back)

    def _fall_back(self) -> None:
        """Nobody renewed the lease and no engine core answers: what it would have said by now."""
        self._timer = None
        get_logger().warning("governor: no engine core answers and the lease has run out; this process falls back")
        self._put(self._last[0]["fallback"], "fallback_cap", max(int(core["api_processes"]) for core in self._last))
        self._applied = {}

    def _put(self, wanted: Wanted, cap: str, api_processes: int) -> None:
        engines = [Admission(int(core[cap]), int(core["running"]), core["bound"]) for core in self._last]
        situation = Situation(engines, max(1, api_processes))
        for name, part in self._parts.items():
            if name in self._failed:
                continue
            try:
                part.apply(wanted.get(name), situation)
            except Exception as error:
                self._fail(part, f"it cannot be set in an API process ({errors.shown(error)})")

    def _fail(self, part: Part, why: str) -> None:
        try:
            part.release()
        except Exception as error:
            why += f"; nor can it be put back to its start-up value ({errors.shown(error)})"
        self._failed[part.name] = why
        get_logger().warning("governor knob %s switched itself off in this API process: %s", part.name, why)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
