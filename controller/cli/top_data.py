"""What the live view shows, asked of the daemon.

Belongs here: the calls, the last minutes of some signals. Never: how it looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from controller.cli.daemon import Daemon

Doc = Mapping[str, Any]
CURVES = ("requests_per_s", "generation_tokens_per_s", "running", "waiting", "kv_cache_usage_ratio", "goodput_ratio")
POINTS = 60
SINCE = "10m"
DECISIONS = 8


@dataclass(frozen=True, slots=True)
class Frame:
    """One look. `lost`: why there was no newer one."""

    status: Doc
    signals: Doc
    knobs: Doc
    alerts: Doc
    decisions: Sequence[Doc]
    curves: Mapping[str, Sequence[float | None]]
    lost: str | None = None

    def stale(self, why: str) -> Frame:
        """The same, and why it is old."""
        return replace(self, lost=why)


class Reader:
    """One for the view's life: it remembers the curves, so that the history is read once."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._curves: dict[str, deque[float | None]] | None = None

    async def read(self) -> Frame:
        """Look. Raises DaemonRefused, DaemonUnreachable."""
        status = await self._daemon.get("status")
        if self._curves is None:
            self._curves = await self._past()
        for name, curve in self._curves.items():
            curve.append(status["signals"].get(name))
        page = await self._daemon.get("decisions", {"changes": "true", "limit": DECISIONS})
        return Frame(
            status=status,
            signals=await self._daemon.get("signals"),
            knobs=await self._daemon.get("knobs"),
            alerts=await self._daemon.get("alerts"),
            decisions=page["decisions"],
            curves={name: tuple(curve) for name, curve in self._curves.items()},
        )

    async def _past(self) -> dict[str, deque[float | None]]:
        found = await self._daemon.get("history", {"since": SINCE, "points": POINTS, "signal": [*CURVES]})
        return {name: deque(found["means"].get(name, ()), maxlen=POINTS) for name in CURVES}
