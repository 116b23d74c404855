"""How sure a mean over few seeds is, and whether two orders agree. Belongs here: that arithmetic. Never: what of.

Seeds are few and the same for all contenders, so intervals are Student's t over the seeds' values, and of ratios over
the seeds' own ratios (paired): a bootstrap of three values would be far too narrow.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

_T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t, two-sided 95 %, for 1 to 9 degrees of freedom (any table of it)."""


def mean(values: Sequence[float]) -> float:
    """Raises statistics.StatisticsError of no values."""
    return statistics.fmean(values)


def half_width(values: Sequence[float]) -> float | None:
    """Half of the 95 % confidence interval of the mean; None of a single value. Over 10 values: of a normal one."""
    if len(values) < 2:
        return None
    degrees = len(values) - 1
    t = _T975[degrees - 1] if degrees <= len(_T975) else 1.96
    return t * statistics.stdev(values) / math.sqrt(len(values))


def ratio(values: Sequence[float], others: Sequence[float]) -> tuple[float | None, float | None]:
    """Mean of values over others pair by pair, and half of its interval; None where another is 0."""
    if not others or min(others) <= 0:
        return None, None
    ratios = [a / b for a, b in zip(values, others, strict=True)]
    return mean(ratios), half_width(ratios)


def rank_correlation(values: Sequence[float], others: Sequence[float]) -> float | None:
    """Spearman's: Pearson's of the ranks, equal values sharing theirs. None where all on one side are equal."""
    a, b = _ranks(values), _ranks(others)
    return statistics.correlation(a, b) if len({*a}) > 1 and len({*b}) > 1 else None


def _ranks(values: Sequence[float]) -> list[float]:
    """From 0; equal values have the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]
