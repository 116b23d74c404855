"""All checks over one picture, each in a thread of its own with a deadline.

Belongs here: that one which hangs or breaks takes no other with it. Never: what a check looks at.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from controller.preflight.checks import CHECKS
from controller.preflight.result import UNKNOWN, Check, Found, Report, Result
from controller.preflight.surroundings import Surroundings
from controller.threads import BoundedCall

LIMIT_S = 10.0
"""Of one check: a file system that hangs (NFS) is not waited for longer."""


class Runner:
    """Keeps the threads: a check that still hangs is not begun again."""

    def __init__(self, checks: Sequence[Check] = CHECKS, limit_s: float = LIMIT_S) -> None:
        self._checks = checks
        self._limit_s = limit_s
        self._around: Surroundings | None = None
        self._calls = {one.name: BoundedCall(f"check {one.name}", partial(self._look, one)) for one in checks}

    async def run(self, around: Surroundings, only: Collection[str] = ()) -> Report:
        """Those named in `only`, or all, in their order."""
        self._around = around
        results = []
        for check in self._checks:
            if not only or check.name in only:
                found = await self._calls[check.name](self._limit_s)
                results.append(Result.of(check, found or self._silent()))
        return Report(around.now, tuple(results))

    def _look(self, check: Check) -> Found:
        assert self._around is not None  # noqa: S101 (run sets it)
        return check.answer(self._around)

    def _silent(self) -> Found:
        return Found(UNKNOWN, f"it has not come back for {self._limit_s:g} s: a file system or a program hangs")
