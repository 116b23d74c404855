"""The wall clock is right, as far as the kernel knows.

Belongs here: this one check. Never: another.
"""

from __future__ import annotations

from datetime import UTC, datetime

from controller.preflight.result import FAIL, PASS, UNKNOWN, WARN, Check, Found, NotKnown
from controller.preflight.surroundings import Surroundings

WRITTEN = datetime(2026, 11, 1, tzinfo=UTC)
"""This program is newer: no right clock shows an earlier time."""
CURE = "sudo timedatectl set-ntp true"


def _look(around: Surroundings) -> Found:
    if around.now < WRITTEN:
        return Found(FAIL, f"the clock shows {around.now:%Y-%m-%d}, before this program was written", CURE)
    if around.clock is None:
        raise NotKnown("this kernel does not tell whether its clock is synchronised (adjtimex)")
    if not around.clock.synchronised:
        return Found(WARN, "the clock is not synchronised: the history's times may jump, schedules start wrong", CURE)
    return Found(PASS, f"the clock is synchronised, off by {around.clock.max_error_s * 1000:.3g} ms at most")


CHECK = Check(
    "clock",
    "the clock is synchronised",
    "field case D4: a wrong clock and the history",
    frozenset({PASS, WARN, FAIL, UNKNOWN}),
    _look,
)
