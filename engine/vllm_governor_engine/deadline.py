"""By when an engine core has to have begun a call.

Here: making such a deadline and judging it, across processes. Never here: what is done about a late call. Monotonic
clocks can be compared within one running kernel only, so a deadline names its own; elsewhere it cannot be judged and
counts as kept.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any


def at(when: float) -> dict[str, Any]:
    """A deadline at `when` (monotonic seconds), as it is sent."""
    return {"kernel": _kernel(), "monotonic_s": when}


def passed(deadline: Any, now: float) -> bool:
    """True when a deadline made by `at` under this very kernel lies before `now` (monotonic seconds)."""
    if not isinstance(deadline, dict) or not _kernel() or deadline.get("kernel") != _kernel():
        return False
    return bool(now > deadline["monotonic_s"])


@lru_cache(maxsize=1)
def _kernel() -> str:
    """Names the running kernel since its boot; empty where it cannot be told."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
