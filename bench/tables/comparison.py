"""The table of one comparison as Markdown. Belongs here: its columns. Never: where it goes, a figure that it works out
from others than those in the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.tables.cells import number, with_half

_HEAD = (
    "contender",
    "goodput after 30 s",
    "ours over it",
    "good",
    "P99 TTFT",
    "P99 ITL",
    "P99 e2e",
    "QPS/W",
    "turned away",
    "changes, reversals",
)


def name(document: Mapping[str, Any]) -> str:
    """What its place on a page is called: scenario and GPU."""
    return f"{document['scenario']} {document['gpu']}"


def table(document: Mapping[str, Any]) -> str:
    """Best first. Plus-minus is half of the 95 % interval over the seeds."""
    ranked = sorted(document["contenders"].items(), key=lambda one: -one[1]["goodput_after_30s"])
    lines = [f"| {' | '.join(_HEAD)} |", f"|{' --- |' * len(_HEAD)}"]
    for who, one in ranked:
        ratio = document["ratios"].get(who, {})
        cells = (
            who,
            with_half(one["goodput_after_30s"], one["goodput_after_30s_half95"], 3),
            "" if who == document["ours"] else with_half(ratio.get("ratio"), ratio.get("half95"), 2),
            f"{one['good_ratio']:.1%}",
            number(one["p99_ttft_s"], "{:.2f} s"),
            number(one["p99_itl_s"], "{:.3f} s"),
            number(one["p99_e2e_s"], "{:.1f} s"),
            f"{one['qps_per_w']:.4f}",
            f"{one['rejected_ratio']:.1%}",
            f"{one['changes']:.0f}, {one['reversals']:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
