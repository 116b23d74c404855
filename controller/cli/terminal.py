"""The terminal that tables are printed to.

Belongs here: its width. Never: what is printed.
"""

from __future__ import annotations

from rich.console import Console


def console() -> Console:
    """The standard output; where that is piped it is not cut to the width of a terminal that is not there."""
    found = Console()
    return found if found.is_terminal else Console(width=200)
