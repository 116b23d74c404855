"""The file system that holds the history, looked at beside the event loop: one that hangs keeps up nothing.

Belongs here: how often it is asked. Never: how (store/health.py), when that is too little.
"""

from __future__ import annotations

from datetime import datetime

from controller.threads import BoundedCall
from store import health
from store.database import sqlite_path

EVERY_S = 10.0
LIMIT_S = 0.05


class Disk:
    """Of a history that is a SQLite file; of another it knows nothing."""

    def __init__(self, url: str) -> None:
        self._path = sqlite_path(url)
        self._call = BoundedCall("disk", self._look)
        self._free: float | None = None
        self._asked_s: float | None = None

    def _look(self) -> float | None:
        return None if self._path is None else health.free_ratio(self._path)

    def set_aside_at(self) -> datetime | None:
        """When a damaged history was moved away, as far as that is still to be seen."""
        return None if self._path is None else health.set_aside_at(self._path)

    async def free_ratio(self, now_s: float) -> float | None:
        """Free share of the file system, at most ten seconds old; None: not known."""
        if self._path is None:
            return None
        if self._asked_s is None or not 0 <= now_s - self._asked_s < EVERY_S:
            self._asked_s = now_s
            self._free = await self._call(LIMIT_S)
        return self._free
