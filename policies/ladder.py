"""The rungs that an admission cap may stand on.

CUDA graphs are captured at batch sizes that are multiples of 8; a cap between two rungs pays padding for nothing,
and engines were seen stuck slow there (vLLM issue 57355). Belongs here: rounding. Never: when to move.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right


def rungs(floor: int, ceiling: int, step: int) -> tuple[int, ...]:
    """Ascending: `floor`, every multiple of `step` between, `ceiling` (an envelope need not be a multiple)."""
    if ceiling <= floor:
        return (ceiling,)
    return tuple(sorted({floor, ceiling, *range(step * (floor // step + 1), ceiling, step)}))


def down(value: float, target: float, ladder: tuple[int, ...]) -> int:
    """The highest rung at or under `target`, but at least one rung under `value`; the lowest rung when there is
    none.
    """
    at_most_target = bisect_right(ladder, target) - 1
    one_below = bisect_left(ladder, value) - 1
    return ladder[max(0, min(at_most_target, one_below))]


def up(value: float, target: float, ladder: tuple[int, ...]) -> int:
    """The lowest rung at or over `target`, but at least one rung over `value`; the highest rung when there is none."""
    at_least_target = bisect_left(ladder, target)
    one_above = bisect_right(ladder, value)
    return ladder[min(len(ladder) - 1, max(at_least_target, one_above))]
