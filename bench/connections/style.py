"""The three ways to connect that the seeds' table compares. Values alone; connecting never belongs here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Style:
    """Source: seed 2, the table of short, traditional long and optimised connections."""

    name: str
    shipped: bool
    """nginx runs with the files of deploy/nginx; else with its own defaults."""
    kept: bool
    """A connection carries a dialogue; else one request, and is closed."""
    resumed: bool
    """The client offers the TLS session of its last connection when it makes the next."""


SHORT = Style("short", shipped=False, kept=False, resumed=False)
LONG = Style("long", shipped=False, kept=True, resumed=False)
TUNED = Style("tuned", shipped=True, kept=True, resumed=True)
STYLES = (SHORT, LONG, TUNED)
