"""The table of `bench compare --table batching` as Markdown, in the shape of the seeds' first table.

Belongs here: its rows. Never: where it goes, a figure that it works out from others than those in the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.tables.cells import number, with_half


def name(document: Mapping[str, Any]) -> str:
    """What its place on a page is called: the table and the GPU."""
    return f"{document['table']} {document['gpu']}"


def table(document: Mapping[str, Any]) -> str:
    """One column a scheme. Plus-minus is half of the 95 % interval over the seeds."""
    schemes: Mapping[str, Any] = document["schemes"]
    rows = {
        f"requests/s with {document['kept_ratio']:.0%} inside the objectives": [
            with_half(one["qps"], one["qps_half95"], 2) for one in schemes.values()
        ],
        "times static": [with_half(one["qps_ratio"], one["qps_ratio_half95"], 2) for one in schemes.values()],
    }
    for load, rate in document["rates"].items():
        where = f"at {load} of static's capacity ({rate:.2f} requests/s)"
        for column, said in (("p99_e2e_s", "P99 end to end"), ("p99_ttft_s", "P99 TTFT"), ("p99_itl_s", "P99 ITL")):
            rows[f"{said}, {where}"] = [number(one["at_load"][load][column], "{:.3g} s") for one in schemes.values()]
    rows["QPS/W at its own capacity (power model)"] = _at_capacity(schemes, "qps_per_w", "{:.4f}")
    rows["W at its own capacity (power model)"] = _at_capacity(schemes, "power_w", "{:.0f}")
    rows["empty slots in allocated KV blocks"] = _at_capacity(schemes, "fragmentation", "{:.1%}")
    rows["prompt tokens found in the cache"] = _at_capacity(schemes, "hit_rate", "{:.1%}")
    head = ["", *schemes]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return "\n".join([*lines, *(f"| {said} | {' | '.join(cells)} |" for said, cells in rows.items())])


def _at_capacity(schemes: Mapping[str, Any], column: str, form: str) -> list[str]:
    return [number(one["at_capacity"][column], form) for one in schemes.values()]
