"""Knobs in a terminal.

Belongs here: how they look. Never: where they come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from controller.cli.status_table import override
from controller.cli.terminal import console
from controller.cli.words import value

SUPPORT = {"native": "", "limited": "yellow", "off": "dim"}


def show(found: Mapping[str, Any]) -> None:
    """Print them to the standard output."""
    terminal = console()
    if not found["knobs"]:
        terminal.print("The engine does not answer, so nothing is known of its knobs.")
        return
    table = Table()
    table.add_column("knob", no_wrap=True)
    for name in ("now", "start-up", "from", "to", "asked", "falls back to"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why", ratio=1)
    for one in found["knobs"]:
        names = ("value", "startup", "minimum", "maximum", "requested", "fallback")
        table.add_row(one["name"], *(value(one[name]) for name in names), _why(one), style=SUPPORT[one["support"]])
    terminal.print(table)
    terminal.print(f"Boot {found['boot_id']}, generation {found['generation']}.")


def _why(one: Mapping[str, Any]) -> str:
    """Why it is what it is: the limits of its support, the override, the last decision."""
    said = []
    if one["support"] != "native":
        said.append(f"{one['support']}: {one['reason']}")
    if one["override"] is not None:
        said.append(f"override: {override(one['override'])}")
    if len({*one["cores"]}) > 1:
        said.append(f"by core {', '.join(map(value, one['cores']))}")
    if one["last"] is not None:
        said.append(one["last"]["sentence"])
    return escape("\n".join(said))
