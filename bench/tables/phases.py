"""A comparison phase by phase, once each phase has settled. Belongs here: that table. Never: where it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.tables.cells import number


def name(document: Mapping[str, Any]) -> str:
    """What its place on a page is called."""
    return f"phases {document['scenario']} {document['gpu']}"


def table(document: Mapping[str, Any]) -> str:
    """One row a contender, best first; one column a phase: good requests a second in all of it, then what the admitted
    waited for their first token and how many were turned away, both without its first 15 s. Means over the seeds.
    """
    ranked = sorted(document["contenders"].items(), key=lambda one: -one[1]["goodput_after_30s"])
    phases = document["phases"]
    lines = [f"| contender | {' | '.join(phase['name'] for phase in phases)} |", f"|{' --- |' * (1 + len(phases))}"]
    for who, one in ranked:
        cells = (
            f"{good:.2f}/s; {number(p99_s, '{:.2f} s')}; {rejected:.1%}"
            for good, p99_s, rejected in zip(
                one["phase_goodput"], one["phase_p99_ttft_s"], one["phase_rejected_ratio"], strict=True
            )
        )
        lines.append(f"| {who} | {' | '.join(cells)} |")
    return "\n".join(lines)
