"""`python -m bench compare`: arguments, the table, the JSON line, the report. Never here: a run."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import in_vllm
from bench.compare.options import add_options
from bench.setup import places
from bench.tables.cells import number


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; exit code 0 when it ran, whatever came out."""
    parser = argparse.ArgumentParser(prog="python -m bench compare", description=(__doc__ or "").splitlines()[0])
    add_options(parser)
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"cannot score on {options.seeds} seeds: it takes at least 1")
    if options.clock == "real" and (options.table is not None or options.report is not None):
        parser.error("cannot use --clock real with --table or --report: it knows only what requests show")
    if options.table is not None and (options.report is not None or options.contenders):
        parser.error("cannot use --table with --report or --contenders: it has its own contenders and no pictures")
    measure = _on_both_clocks if options.clock == "real" else _on_the_virtual_clock
    code = measure(arguments, options.out)
    if code != 0:
        return code
    document = json.loads(options.out.read_text(encoding="utf-8"))
    _shown_by(document)(document)
    if options.report is not None:
        from bench.compare import report  # plotly takes its time

        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(report.page([document]), encoding="utf-8")
        print(f"report: {options.report}")
    if options.json:
        print(json.dumps(document), flush=True)
    return 0


def _on_the_virtual_clock(arguments: Sequence[str], out: Path) -> int:
    return in_vllm.run("bench.compare", [*arguments, "--out", str(out)], _measure)


def _measure(arguments: Sequence[str]) -> int:
    from bench.compare import measure  # imports vLLM

    return measure.main(arguments)


def _on_both_clocks(arguments: Sequence[str], out: Path) -> int:
    """Real time in a process of its own: its scores import the plugin's operations, which only lie in the tree."""
    path = os.pathsep.join(map(str, (places.ENGINE_SOURCE, places.ROOT)))
    command = [sys.executable, "-m", "bench.compare.real", *arguments]
    ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, cwd=places.ROOT, check=False)
    beside = out.with_name(f"{out.stem}-virtual.json")
    code = ran.returncode or _on_the_virtual_clock(arguments, beside)
    if code == 0:
        virtual = json.loads(beside.read_text(encoding="utf-8"))
        document = json.loads(out.read_text(encoding="utf-8")) | {"virtual": virtual["contenders"]}
        out.write_text(json.dumps(document), encoding="utf-8")
        beside.unlink()
    return code


def _shown_by(document: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], None]:
    if document.get("clock") == "real":
        return _show_real
    tables = {"batching": _show_batching, "load": _show_load, "cpu": _show_cpu}
    return tables.get(document.get("table", ""), _show)


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


def _show_load(document: Mapping[str, Any]) -> None:
    table = Table(title=f"{document['gpu']}: {document['what']}", title_justify="left")
    for name in ("requests/s", "contender", "P99 e2e s", "good", "turned away", "KV cache used", "busy"):
        table.add_column(name, justify="right")
    for rate, by_name in document["rates"].items():
        for name, one in by_name.items():
            shares = (one[column] for column in ("good_ratio", "rejected_ratio", "kv_usage", "busy_ratio"))
            table.add_row(
                rate, name, number(one["p99_e2e_s"], "{:.2f}"), *(number(share, "{:.1%}") for share in shares)
            )
    Console(width=120).print(table)


def _show_cpu(document: Mapping[str, Any]) -> None:
    agree = document["rank_correlation"]
    title = f"{document['what']}; rank correlation {'unknown' if agree is None else f'{agree:.2f}'}"
    table = Table(title=title, title_justify="left")
    for name in ("contender", "emulated", "on the CPU"):
        table.add_column(name, justify="left" if name == "contender" else "right")
    for name, one in document["contenders"].items():
        table.add_row(name, f"{one['emulated']:.2f}", f"{one['cpu']:.2f}")
    Console(width=120).print(table)


def _show_real(document: Mapping[str, Any]) -> None:
    table = Table(title=f"{document['scenario']} on {document['gpu']}: virtual clock, real time", title_justify="left")
    for name in (
        "contender",
        "goodput after 30 s",
        "good",
        "P99 TTFT s",
        "P99 e2e s",
        "turned away",
        "failed",
        "late ms",
    ):
        table.add_column(name, justify="left" if name == "contender" else "right")
    for name, one in document["contenders"].items():
        for clock, figures in (("virtual", document["virtual"][name]), ("real", one)):
            table.add_row(
                f"{name}, {clock}",
                f"{figures['goodput_after_30s']:.3f}",
                f"{figures['good_ratio']:.1%}",
                number(figures["p99_ttft_s"], "{:.2f}"),
                number(figures["p99_e2e_s"], "{:.1f}"),
                f"{figures['rejected_ratio']:.1%}",
                number(figures.get("failed"), "{:.0f}"),
                number(None if figures.get("late_p99_s") is None else 1e3 * figures["late_p99_s"], "{:.0f}"),
            )
    Console(width=120).print(table)
