"""The seeds' own tables as Markdown, our columns beside theirs.

Belongs here: their figures and how ours are brought to their units. Never: where a table goes, a figure that is neither
in the document nor in the seeds.

Theirs are of four and eight cards, ours of one emulated card and its power model (docs/compare.md), so only ratios can
be compared; docs/cost.md says where their absolute figures contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.tables.cells import number

_SCHEMES = {"static 8": (42, 350, 18, 2.1), "dynamic": (58, 270, 12, 3.4), "dynamic + tiers": (67, 210, 7, 4.2)}
"""QPS mean, P99 in ms, fragmentation in %, QPS/W."""
_LOAD = {"10": (380, 48, 12, 65), "30": (620, 56, 23, 71), "50": (1100, 68, 35, 68), "100": (2100, 82, 40, 62)}
"""P99 in ms, memory in GB, fragmentation in %, SM utilisation in %."""
_LEDGER = {"GPU hours": (1.53, 1.12, 0.98), "electricity": (46.8, 34.1, 30.2)}
REQUESTS = 100_000
REQUEST_TOKENS = 430.0
"""Mean of the mixed load: 76.5 of the answer, and a prompt of 512 for 35 % and of 267 for the others."""


def schemes(document: Mapping[str, Any]) -> str:
    """Their first table, of `bench compare --table batching`."""
    base, theirs_base = document["schemes"]["static 8"], _SCHEMES["static 8"]
    rows = []
    for name, theirs in _SCHEMES.items():
        one = document["schemes"][name]
        own, at = one["at_capacity"], one["at_load"]["1"]["p99_e2e_s"]
        static_at, static_own = base["at_load"]["1"]["p99_e2e_s"], base["at_capacity"]
        rows.append(
            (
                name,
                f"{theirs[0]} ({theirs[0] / theirs_base[0]:.2f} x)",
                f"{one['qps']:.1f} ({one['qps'] / base['qps']:.2f} x)",
                f"{theirs[1]} ms ({theirs[1] / theirs_base[1]:.2f} x)",
                f"{at:.2f} s ({at / static_at:.2f} x)",
                f"{theirs[2]} %",
                number(own["fragmentation"], "{:.1%}").replace("%", " %"),
                f"{theirs[3]} ({theirs[3] / theirs_base[3]:.2f} x)",
                f"{own['qps_per_w']:.4f} ({own['qps_per_w'] / static_own['qps_per_w']:.2f} x)",
            )
        )
    head = ("", "QPS", "ours", "P99", "ours, at static's capacity", "fragmentation", "ours, KV", "QPS/W", "ours")
    return _table(head, rows)


def load(document: Mapping[str, Any]) -> str:
    """Their second table, of `bench compare --table load`."""
    rows = []
    for rate, theirs in _LOAD.items():
        p99_ms, memory_gb, fragmentation, busy = theirs
        default, ours = (document["rates"][rate][name] for name in ("vllm_default", "model"))
        both = (default, ours)
        rows.append(
            (
                rate,
                f"{p99_ms} ms",
                "; ".join(number(one["p99_e2e_s"], "{:.2f} s") for one in both),
                f"{memory_gb} GB",
                "; ".join(f"{one['kv_usage'] * document['kv_gb']:.1f} GB" for one in both),
                f"{fragmentation} %",
                "; ".join(number(one["fragmentation"], "{:.1%}") for one in both).replace("%", " %"),
                f"{busy} %",
                "; ".join(number(one["busy_ratio"], "{:.0%}") for one in both).replace("%", " %"),
                "; ".join(f"{one['rejected_ratio']:.1%}" for one in both).replace("%", " %"),
            )
        )
    head = ("QPS", "P99", "default; ours", "memory", "KV cache in use", "fragmentation", "of the KV cache", "SM")
    return _table((*head, "busy", "turned away"), rows)


def ledger(document: Mapping[str, Any]) -> str:
    """Their ledger, of `bench compare --table batching`: what so many requests take at each scheme's capacity."""
    found = {
        name: (REQUESTS / one["qps"] / 3600.0, one["at_capacity"]["power_w"])
        for name, one in document["schemes"].items()
    }
    hours = [one for one, _ in found.values()]
    kwh = [one * watts / 1e3 for one, watts in found.values()]
    joules = [3.6e6 * one / REQUESTS / REQUEST_TOKENS for one in kwh]
    rows = [
        ("GPU hours", *_theirs("GPU hours", ""), *_against_first(hours, "{:.2f}")),
        ("electricity", *_theirs("electricity", " CNY"), *_against_first(kwh, "{:.3f} kWh")),
        ("J a token", "3.2", "2.7", "", *_against_first(joules, "{:.3f}")),
    ]
    head = ("", "defaults", "better batches", "and long connections", *(f"ours, {name}" for name in found))
    return _table(head, rows)


def _theirs(row: str, unit: str) -> list[str]:
    return [f"{value}{unit} ({value / _LEDGER[row][0]:.2f} x)" for value in _LEDGER[row]]


def _against_first(values: list[float], form: str) -> list[str]:
    return [f"{form.format(value)} ({value / values[0]:.2f} x)" for value in values]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
