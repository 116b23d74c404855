"""The table of `bench.compare.generators` as Markdown: one load, as two generators time it.

Belongs here: its rows. Never: where it goes, a figure that is not in the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.tables.cells import number

_ROWS = {
    "requests answered": ("answered", "{:.0f}"),
    "time to first token, median": ("p50_ttft_s", "{:.3f} s"),
    "time to first token, P99": ("p99_ttft_s", "{:.3f} s"),
    "between two pieces, median": ("p50_itl_s", "{:.4f} s"),
    "between two pieces, P99": ("p99_itl_s", "{:.4f} s"),
    "end to end, median": ("p50_e2e_s", "{:.2f} s"),
    "end to end, P99": ("p99_e2e_s", "{:.2f} s"),
    "requests left late, P99": ("late_p99_s", "{:.3f} s"),
}


def name(document: Mapping[str, Any]) -> str:
    """What its place on a page is called."""
    return str(document["table"])


def table(document: Mapping[str, Any]) -> str:
    """One column a generator; the last is the second over the first."""
    first, second = found = list(document["generators"].values())
    lines = [f"| | {' | '.join(document['generators'])} | ratio |", "| --- | --- | --- | --- |"]
    for said, (column, form) in _ROWS.items():
        a, b = first[column], second[column]
        cells = [number(one[column], form) for one in found]
        lines.append(f"| {said} | {' | '.join(cells)} | {number(b / a if a and b else None, '{:.3f}')} |")
    return "\n".join(lines)
