"""True, false and unknown, so that what is unknown decides nothing by itself.

Belongs here: comparing and combining with unknown values. Never: a threshold.
"""

from __future__ import annotations


def above(value: float | None, level: float) -> bool | None:
    """Unknown stays unknown."""
    return None if value is None else value > level


def below(value: float | None, level: float) -> bool | None:
    """Unknown stays unknown."""
    return None if value is None else value < level


def at_least(value: float | None, level: float) -> bool | None:
    """Unknown stays unknown."""
    return None if value is None else value >= level


def at_most(value: float | None, level: float) -> bool | None:
    """Unknown stays unknown."""
    return None if value is None else value <= level


def both(*told: bool | None) -> bool | None:
    """False as soon as one is, whatever is unknown."""
    if any(one is False for one in told):
        return False
    return None if any(one is None for one in told) else True


def either(*told: bool | None) -> bool | None:
    """True as soon as one is, whatever is unknown."""
    if any(one is True for one in told):
        return True
    return None if any(one is None for one in told) else False


def negated(told: bool | None) -> bool | None:
    """Unknown stays unknown."""
    return None if told is None else not told
