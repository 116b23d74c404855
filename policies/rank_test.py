"""Whether two sets of figures differ, and by how much, without assuming how they are spread.

Belongs here: the Mann-Whitney rank test and the Hodges-Lehmann shift. Never: what the figures are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from statistics import median


def p_value(before: Sequence[float], after: Sequence[float]) -> float:
    """Two-sided probability that figures of one kind rank as far apart as these do; 1.0 where nothing can be said.

    Normal approximation of U with the correction for ties (Mann and Whitney 1947, Lehmann 1975) and for continuity:
    fair from about eight figures a side.
    """
    n, m = len(before), len(after)
    if not n or not m:
        return 1.0
    rank_sum, ties = _ranks(before, after)
    u = rank_sum - m * (m + 1) / 2
    total = n + m
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    distance = max(0.0, abs(u - n * m / 2) - 0.5)
    return math.erfc(distance / math.sqrt(2 * variance))


def _ranks(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """The sum of the ranks of `after` among both, equal figures sharing the mean of theirs; and the sum of t^3 - t over
    groups of t equal ones.
    """
    marked = sorted([(value, False) for value in before] + [(value, True) for value in after])
    rank_sum, ties, done = 0.0, 0.0, 0
    for _, group in groupby(marked, key=lambda one: one[0]):
        members = list(group)
        t = len(members)
        rank_sum += sum(late for _, late in members) * (done + (t + 1) / 2)
        ties += t**3 - t
        done += t
    return rank_sum, ties


def shift(before: Sequence[float], after: Sequence[float]) -> float | None:
    """By how much `after` lies over `before`: the median of all differences (Hodges and Lehmann 1963). None without
    figures on both sides.
    """
    return median(late - early for early in before for late in after) if before and after else None
