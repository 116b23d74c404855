"""The straight line of P99 over the offered rate, and where the server leaves it.

Belongs here: that arithmetic. Never: what is sent, which limits there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEAVES = 2.0
"""P99 of this many times what the line foretells is off the line: noise of a short step is not, a queue that grows is.
"""


@dataclass(frozen=True, slots=True)
class Point:
    """A step that was measured. `p99_s` None: not one good answer; `met`: a limit ended the test in it."""

    qps: float
    p99_s: float | None
    baseline: bool
    met: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """Least squares. `r2` tells how straight the points lie, 1: on the line."""

    slope_s_per_qps: float
    at_zero_s: float
    r2: float | None
    """None of two points, which always lie on one."""

    def at(self, qps: float) -> float:
        """Seconds that it foretells."""
        return self.at_zero_s + self.slope_s_per_qps * qps


@dataclass(frozen=True, slots=True)
class Knee:
    """`held_qps`: the highest rate before it; None: the first rate was too much. `left_qps`: the lowest past it; None:
    it lies above all that was offered.
    """

    held_qps: float | None
    left_qps: float | None
    why: str


def line(points: Sequence[Point]) -> Line | None:
    """Through the points that have a P99; None of fewer than two rates."""
    known = [(point.qps, point.p99_s) for point in points if point.p99_s is not None]
    if len({qps for qps, _ in known}) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(known) for values in zip(*known, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in known)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in known) / spread
    found = Line(slope, mean_y - slope * mean_x, None)
    total = sum((y - mean_y) ** 2 for _, y in known)
    if len(known) < 3:
        return found
    rest = sum((y - found.at(x)) ** 2 for x, y in known)
    return Line(found.slope_s_per_qps, found.at_zero_s, 1 - rest / total if total else 1.0)


def knee(points: Sequence[Point]) -> Knee:
    """The first step that leaves the line of the baseline steps before it, or in which a limit was met.

    A line that falls by noise is held at the highest P99 of its points.
    """
    held: float | None = None
    for number, point in enumerate(points):
        before = [one for one in points[:number] if one.baseline]
        why = _leaves(point, before)
        if why is not None:
            return Knee(held, point.qps, why)
        held = point.qps
    return Knee(held, None, "P99 stayed near the line and no limit was met")


def _leaves(point: Point, before: Sequence[Point]) -> str | None:
    if point.met:
        return "a limit was met"
    found = line(before)
    if found is None or point.p99_s is None:
        return None
    foretold_s = max(found.at(point.qps), *(one.p99_s for one in before if one.p99_s is not None))
    if point.p99_s <= LEAVES * foretold_s:
        return None
    return f"P99 was {point.p99_s:.3g} s where the line of the lower rates foretells {foretold_s:.3g} s"
