"""Numbers as they stand in a table. Belongs here: their form, and nothing for what is not known. Never: a column."""

from __future__ import annotations


def with_half(value: float | None, half: float | None, digits: int) -> str:
    """With half of the interval, where there is one."""
    if value is None:
        return ""
    return f"{value:.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}")


def number(value: float | None, form: str) -> str:
    """In that form, as `{:.2f} s`."""
    return "" if value is None else form.format(value)
