"""The dead man's switch as plain state: a deadline, what to fall back to, how often it ran out.

Here: state and arithmetic on times that are passed in (monotonic seconds). Never here: a clock, or the setting of a
knob; the governor does that when `expire` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .knobs.base import Value


@dataclass
class Lease:
    """One engine core's lease. Not held at first."""

    fallback: dict[str, Value] = field(default_factory=dict)
    """Fallback value by knob, as it was named; a knob that is not in it falls back to its start-up value."""
    expirations: int = 0
    """How often a held lease has run out since boot."""
    holder: str | None = None
    """Who holds it, as whoever took it named itself; None: nobody, or somebody without a name."""
    _deadline: float | None = None

    def renew(self, now: float, lease_s: float, holder: str | None = None) -> None:
        """Hold the lease until `lease_s` seconds from `now`, whether it was held before or not.

        Without a name the holder stays who it was: a person who sets a knob by hand takes the engine from nobody.
        """
        self._deadline = now + lease_s
        self.holder = self.holder if holder is None else holder

    def open_to(self, holder: str | None, instead_of: str | None = None) -> bool:
        """Whether somebody of that name may take or renew it, who knows that `instead_of` is gone."""
        return holder is None or self.holder in (None, holder, instead_of)

    def name_fallback(self, fallback: Mapping[str, Value]) -> None:
        """Replace the whole of the fallback."""
        self.fallback = dict(fallback)

    @property
    def held(self) -> bool:
        """True from a renewal until somebody has acted on its running out."""
        return self._deadline is not None

    def due(self, now: float) -> bool:
        """True when a held lease has run out and nobody has acted on it yet."""
        return self._deadline is not None and now >= self._deadline

    def expire(self, now: float) -> bool:
        """Let go of a lease that has run out; True exactly once for each time it does."""
        if not self.due(now):
            return False
        self._deadline = self.holder = None
        self.expirations += 1
        return True

    def remaining_s(self, now: float) -> float | None:
        """Seconds until the lease runs out; None when none is held."""
        return None if self._deadline is None else max(0.0, self._deadline - now)

    def describe(self, now: float, fallback: Mapping[str, Value]) -> dict[str, Any]:
        """The object `lease` of docs/rpc.md; `fallback` is the whole of it."""
        remaining = self.remaining_s(now)
        return {
            "held": remaining is not None,
            "holder": self.holder,
            "remaining_s": None if remaining is None else round(remaining, 3),
            "fallback": dict(fallback),
            "expirations": self.expirations,
        }
