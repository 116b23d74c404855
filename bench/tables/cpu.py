"""The table of `bench compare --table cpu` as Markdown: who is better, emulated and in earnest.

Belongs here: its rows. Never: where it goes, a figure that is not in the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def name(document: Mapping[str, Any]) -> str:
    """What its place on a page is called."""
    return str(document["table"])


def table(document: Mapping[str, Any]) -> str:
    """Good requests a second, best first by the emulation; the last row is the rank correlation."""
    ranked = sorted(document["contenders"].items(), key=lambda one: -one[1]["emulated"])
    agree = document["rank_correlation"]
    rows = [
        "| contender | emulated, virtual clock | on the CPU, its own clock |",
        "| --- | --- | --- |",
        *(f"| {who} | {one['emulated']:.2f} | {one['cpu']:.2f} |" for who, one in ranked),
        f"| rank correlation | | {'unknown' if agree is None else f'{agree:.2f}'} |",
    ]
    return "\n".join(rows)
