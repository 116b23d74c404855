"""The table of `bench compare --clock real` as Markdown: the virtual clock beside real time.

Belongs here: its columns. Never: where it goes, a figure that is not in the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.tables.cells import number

_COLUMNS = (
    ("goodput after 30 s", "goodput_after_30s", "{:.3f}"),
    ("good", "good_ratio", "{:.1%}"),
    ("P99 TTFT", "p99_ttft_s", "{:.2f} s"),
    ("P99 of requests' P95 ITL", "p99_request_itl_s", "{:.3f} s"),
    ("P99 e2e", "p99_e2e_s", "{:.1f} s"),
    ("turned away", "rejected_ratio", "{:.1%}"),
    ("requests left late, P99", "late_p99_s", "{:.3f} s"),
)


def name(document: Mapping[str, Any]) -> str:
    """What its place on a page is called."""
    return f"real {document['scenario']} {document['gpu']}"


def table(document: Mapping[str, Any]) -> str:
    """Two rows a contender."""
    head = ("contender", "clock", *(said for said, _, _ in _COLUMNS))
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for who, real in document["contenders"].items():
        for clock, figures in (("virtual", document["virtual"][who]), ("real", real)):
            cells = (number(figures.get(column), form) for _, column, form in _COLUMNS)
            lines.append(f"| {who} | {clock} | {' | '.join(cells)} |")
    return "\n".join(lines)
