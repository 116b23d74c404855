"""All comparisons of a page in one table: ours over each of the others. Belongs here: that table. Never: a goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.tables.cells import with_half

NAME = "summary"
"""Its place on a page."""
_OTHERS = {
    "oracle": "oracle",
    "vllm_default": "vLLM's default",
    "seed": "seeds' rule",
    "aimd": "AIMD",
    "gradient": "gradient",
}


def table(documents: Sequence[Mapping[str, Any]]) -> str:
    """One row a comparison, of ratios of goodput after 30 s, seed by seed. Empty: not among the contenders."""
    head = ("scenario", "GPU", "ours", "of those asked", "over the best fixed", *(_OTHERS.values()), "changes")
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for one in documents:
        ours = one["contenders"][one["ours"]]
        best = one["best_fixed"]
        cells = (
            one["scenario"],
            one["gpu"],
            f"{ours['goodput_after_30s']:.3f}",
            f"{ours['good_ratio_after_30s']:.1%}",
            f"{_ratio(one, best)} ({best})" if best else "",
            *(_ratio(one, who) for who in _OTHERS),
            f"{ours['changes']:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _ratio(document: Mapping[str, Any], who: str) -> str:
    found = document["ratios"].get(who, {})
    return with_half(found.get("ratio"), found.get("half95"), 3)
