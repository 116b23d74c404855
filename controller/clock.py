"""The one place that reads the clock.

Belongs here: monotonic seconds for durations, wall time for people. Never: sleeping.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Now:
    """One reading: `monotonic_s` never steps, `wall` is UTC and may."""

    monotonic_s: float
    wall: datetime


def now() -> Now:
    """Both clocks, read together."""
    return Now(time.monotonic(), datetime.now(UTC))
