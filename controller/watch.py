"""Saying a thing once: what the daemon waits for, that it came back, that the engine restarted.

Belongs here: remembering what was said last. Never: what to do about it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

logger = logging.getLogger(__name__)


class Condition:
    """A source that is well or not. Logs when the cause changes, stays silent while it lasts."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._problem: str | None = None

    def report(self, problem: str | None) -> None:
        """Tell the state of this tick."""
        if problem == self._problem:
            return
        if problem is None:
            logger.info("%s: recovered", self._what)
        else:
            logger.warning("%s: %s", self._what, problem)
        self._problem = problem


class Conditions:
    """Several that come and go, each by its name. Logs when one begins and when it is over."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._known: frozenset[str] = frozenset()

    def report(self, now: Mapping[str, str]) -> None:
        """Tell what holds at this tick: name to sentence."""
        for name in now:
            if name not in self._known:
                logger.warning("%s: %s: %s", self._what, name, now[name])
        for name in sorted(self._known - now.keys()):
            logger.info("%s: %s: over", self._what, name)
        self._known = frozenset(now)
