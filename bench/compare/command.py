"""`python -m bench compare`: arguments, the table, the JSON line, the report. Never here: a run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import in_vllm
from bench.compare.options import add_options


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; exit code 0 when it ran, whatever came out."""
    parser = argparse.ArgumentParser(prog="python -m bench compare", description=(__doc__ or "").splitlines()[0])
    add_options(parser)
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"cannot score on {options.seeds} seeds: it takes at least 1")
    if options.table is not None and (options.report is not None or options.contenders):
        parser.error("cannot use --table with --report or --contenders: it has its own contenders and no pictures")
    code = in_vllm.run("bench.compare", arguments, _measure)
    if code != 0:
        return code
    document = json.loads(options.out.read_text(encoding="utf-8"))
    _show_batching(document) if "table" in document else _show(document)
    if options.report is not None:
        from bench.compare import report  # plotly takes its time

        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(report.page([document]), encoding="utf-8")
        print(f"report: {options.report}")
    if options.json:
        print(json.dumps(document), flush=True)
    return 0


def _measure(arguments: Sequence[str]) -> int:
    from bench.compare import measure  # imports vLLM

    return measure.main(arguments)


def _show(document: Mapping[str, Any]) -> None:
    table = Table(title=f"{document['scenario']} on {document['gpu']}: {document['what']}", title_justify="left")
    names = (
        "contender",
        "goodput after 30 s",
        "+-",
        "good",
        "P99 TTFT s",
        "P99 ITL ms",
        "P99 e2e s",
        "QPS/W",
        "reversals",
    )
    for name in names:
        table.add_column(name, justify="left" if name == "contender" else "right")
    ranked = sorted(document["contenders"].items(), key=lambda one: -one[1]["goodput_after_30s"])
    for name, one in ranked:
        half = one["goodput_after_30s_half95"]
        table.add_row(
            name,
            f"{one['goodput_after_30s']:.3f}",
            "" if half is None else f"{half:.3f}",
            f"{one['good_ratio']:.1%}",
            f"{one['p99_ttft_s']:.2f}",
            f"{1e3 * one['p99_itl_s']:.0f}",
            f"{one['p99_e2e_s']:.1f}",
            f"{one['qps_per_w']:.4f}",
            f"{one['reversals']:.0f}",
        )
    Console(width=120).print(table)


def _show_batching(document: Mapping[str, Any]) -> None:
    table = Table(title=f"{document['gpu']}: {document['what']}", title_justify="left")
    at = [f"P99 e2e s at {load} static" for load in document["rates"]]
    for name in ("scheme", "QPS", "+-", "x static", *at, "QPS/W", "fragmentation"):
        table.add_column(name, justify="left" if name == "scheme" else "right")
    for name, one in document["schemes"].items():
        half, ratio, own = one["qps_half95"], one["qps_ratio"], one["at_capacity"]
        table.add_row(
            name,
            f"{one['qps']:.2f}",
            "" if half is None else f"{half:.2f}",
            "" if ratio is None else f"{ratio:.2f}",
            *(f"{figures['p99_e2e_s']:.2f}" for figures in one["at_load"].values()),
            f"{own['qps_per_w']:.4f}",
            "" if own["fragmentation"] is None else f"{own['fragmentation']:.1%}",
        )
    Console(width=120).print(table)
