"""Least squares of seconds ~ a + b tokens + c context from sums alone.

Belongs here: the algebra: adding sums up, the fit with a, b, c >= 0, what is left over, how well the steps tell b and c
apart. Never: which steps are taken in and when a fit is believed (capacity.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

from domain.readings.engine import StepSums

Theta = tuple[float, float, float]
"""a, b, c."""

HOPELESS = 1e6
"""Relative mean square error of a fit that predicts nothing: large, but a number."""
SINGULAR = 1e-9
"""A pivot under this, of a matrix scaled to ones on its diagonal: the columns are the same but for rounding."""
LEAST_VARIATION = 0.02
"""Tokens or context that vary by less of their mean say nothing of what they cost."""
MOST_CORRELATION = 0.99
"""Squared correlation from which on tokens and context are one and the same to us."""


class Sums(NamedTuple):
    """Weighted sums over steps: n, tokens, context, seconds, their products, and the pauses between steps."""

    n: float = 0.0
    t: float = 0.0
    c: float = 0.0
    s: float = 0.0
    tt: float = 0.0
    tc: float = 0.0
    cc: float = 0.0
    ts: float = 0.0
    cs: float = 0.0
    ss: float = 0.0
    between: float = 0.0

    def plus(self, other: Sums, weight: float = 1.0) -> Sums:
        """These times `weight`, and `other`."""
        return Sums(*(weight * mine + added for mine, added in zip(self, other, strict=True)))


def sums_of(steps: StepSums) -> Sums:
    """As the plugin counts them. A pause longer than the steps themselves is an accident, not a part of a step."""
    return Sums(
        steps.n,
        steps.tokens,
        steps.context,
        steps.seconds,
        steps.tokens_tokens,
        steps.tokens_context,
        steps.context_context,
        steps.tokens_seconds,
        steps.context_seconds,
        steps.seconds_seconds,
        min(steps.between_seconds, steps.seconds),
    )


def total(parts: Iterable[Sums]) -> Sums:
    """All together."""
    whole = Sums()
    for part in parts:
        whole = whole.plus(part)
    return whole


def fit(sums: Sums) -> Theta:
    """The a, b, c >= 0 that leave the least over: regressors whose cost would come out negative are dropped."""
    best, least = (sums.s / sums.n if sums.n > 0 else 0.0, 0.0, 0.0), math.inf
    for size in (3, 2, 1):
        for kept in combinations(range(3), size):
            theta = _solve(sums, kept)
            if theta is None or min(theta) < 0.0:
                continue
            left = squared_error(sums, theta)
            if left < least:
                best, least = theta, left
        if size == 3 and least < math.inf:
            break  # without a bound in the way there is no better one
    return best


def squared_error(sums: Sums, theta: Theta) -> float:
    """Sum of the squares of what `theta` misses, over the steps in `sums`."""
    a, b, c = theta
    explained = a * sums.s + b * sums.ts + c * sums.cs
    fitted = (
        a * a * sums.n + b * b * sums.tt + c * c * sums.cc + 2.0 * (a * b * sums.t + a * c * sums.c + b * c * sums.tc)
    )
    return max(0.0, sums.ss - 2.0 * explained + fitted)


def relative_error(sums: Sums, theta: Theta) -> float:
    """Mean square of what `theta` misses, over the square of the mean it predicts."""
    a, b, c = theta
    predicted = a * sums.n + b * sums.t + c * sums.c
    if predicted <= 0.0:
        return 0.0 if sums.ss <= 0.0 else HOPELESS
    return min(HOPELESS, sums.n * squared_error(sums, theta) / predicted**2)


def weakness(sums: Sums, relative_noise: float, most_standard_error: float) -> str | None:
    """Why these steps cannot tell what a token and a context token cost, as a clause; None: they can.

    Judged by the standard error of the prediction for twice the mean tokens and for twice the mean context, with steps
    that scatter by `relative_noise` of their mean.
    """
    tokens, context = sums.t / sums.n, sums.c / sums.n
    tokens_var, context_var = sums.tt / sums.n - tokens**2, sums.cc / sums.n - context**2
    for name, mean, var in (("tokens", tokens, tokens_var), ("context", context, context_var)):
        if var <= (LEAST_VARIATION * mean) ** 2:
            return f"the {name} of a step hardly vary (mean {mean:.4g})"
    shared = (sums.tc / sums.n - tokens * context) ** 2 / (tokens_var * context_var)
    if shared > MOST_CORRELATION:
        return f"tokens and context rise together (correlation {math.sqrt(min(1.0, shared)):.3f})"
    for name, mean, var in (("tokens", tokens, tokens_var), ("context", context, context_var)):
        off = relative_noise * mean / math.sqrt(sums.n * var * (1.0 - shared))
        if off > most_standard_error:
            return f"the {name} of a step vary too little for so few steps (twice as many: off by {off:.0%})"
    return None


def _solve(sums: Sums, kept: tuple[int, ...]) -> Theta | None:
    """The unbounded fit with the regressors `kept` alone; None when they are the same but for rounding."""
    matrix = ((sums.n, sums.t, sums.c), (sums.t, sums.tt, sums.tc), (sums.c, sums.tc, sums.cc))
    right = (sums.s, sums.ts, sums.cs)
    scale = {i: math.sqrt(matrix[i][i]) for i in kept}
    if min(scale.values()) <= 0.0:
        return None
    rows = [[matrix[i][j] / (scale[i] * scale[j]) for j in kept] + [right[i] / scale[i]] for i in kept]
    found = _eliminate(rows)
    if found is None:
        return None
    theta = [0.0, 0.0, 0.0]
    for i, value in zip(kept, found, strict=True):
        theta[i] = value / scale[i]
    return theta[0], theta[1], theta[2]


def _eliminate(rows: list[list[float]]) -> list[float] | None:
    """Gauss: each row ends with its right side. The matrix is positive definite, so no pivot has to be looked for."""
    size = len(rows)
    for i in range(size):
        if rows[i][i] < SINGULAR:
            return None
        for below in rows[i + 1 :]:
            factor = below[i] / rows[i][i]
            for j in range(i, size + 1):
                below[j] -= factor * rows[i][j]
    found = [0.0] * size
    for i in reversed(range(size)):
        known = sum(rows[i][j] * found[j] for j in range(i + 1, size))
        found[i] = (rows[i][size] - known) / rows[i][i]
    return found
