"""Sequences for property tests in which what is seen lasts: no view that stands alone moves a policy that waits."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


def lasting(values: st.SearchStrategy[T], most_ticks: int, max_spells: int = 8) -> st.SearchStrategy[list[T]]:
    """One value a tick, each for up to `most_ticks` of them."""
    spells = st.lists(st.tuples(st.integers(1, most_ticks), values), min_size=1, max_size=max_spells)
    return spells.map(lambda told: [value for ticks, value in told for _ in range(ticks)])
