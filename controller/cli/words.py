"""Lengths of time and values as sentences and tables name them.

Belongs here: what several commands name alike. Never: tables.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta

from domain.errors import SettingsError
from policies.trial import shown

LENGTHS = (("d", 86400), ("h", 3600), ("min", 60))
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def length(seconds: float) -> str:
    """In the largest unit that fits: 1.5 h."""
    for unit, size in LENGTHS:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def limit(value: float | None) -> str:
    """A value of a setting, in which None is no limit."""
    return "no limit" if value is None else shown(value)


def value(one: float | str | None) -> str:
    """A knob's value as the REST API writes it: null is not known, a limit that is off is a word."""
    if one is None:
        return "-"
    return one if isinstance(one, str) else shown(one)


def number(one: float | None) -> str:
    """A signal's value, to as many digits as one looks at."""
    if one is None:
        return "-"
    if one == 0 or 0.001 <= abs(one) < 1e7:
        return f"{one:,.0f}" if abs(one) >= 1000 else f"{one:.4g}"
    return f"{one:.3g}"


def moment(text: str | None) -> str:
    """A time of the REST API, in UTC."""
    return "-" if text is None else f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S}"


def clock_time(text: str) -> str:
    """Its time of day alone."""
    return f"{datetime.fromisoformat(text):%H:%M:%S}"


def seconds(text: str, option: str) -> float:
    """`90s`, `30m`, `2h`, `1d` as seconds. Raises SettingsError."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smhd])", text.strip())
    if found is None:
        raise SettingsError(f"cannot use {option} {text}: it is not a length of time as 30m, 2h or 1d")
    return timedelta(**{UNITS[found[2]]: float(found[1])}).total_seconds()


def wanted(text: str, what: str) -> float | str:
    """A knob's value as a person writes it. Raises SettingsError; `what` names where it stands."""
    if text.strip().lower() in ("no limit", "no-limit", "none"):
        return "no limit"
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise SettingsError(f"cannot use {what}: {text!r} is neither a number nor `no-limit`")
    return found
