"""`python -m bench proof`: arguments, one comparison after another, then the pages. Never here: a figure."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import compare, tables
from bench.compare.options import ROOT
from bench.proof.plan import LOAD, PLAN, SEEDS_TABLES, TABLES

SEEDS = 2
FIRST_SEED = 11
"""Others than those the policies were made on (1 to 3); of 11 the flash crowd alone was seen before."""


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: all ran and the pages have their tables; else that of the first that did not, and the pages stay."""
    names = [*(one.scenario for one in PLAN), *TABLES]
    parser = argparse.ArgumentParser(
        prog="python -m bench proof",
        description="Run every comparison of docs/compare.md again and write the tables that are made of them.",
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"loads each is scored on (default {SEEDS})")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, help=f"(default {FIRST_SEED})")
    parser.add_argument("--only", default=",".join(names), help=f"with commas between: {', '.join(names)}; none: all")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="where compare.md and benchmarks.md are")
    parser.add_argument("--into", type=Path, default=ROOT / "var" / "bench" / "proof", help="where the JSON files go")
    parser.add_argument("--quick", action="store_true", help="phases of a third: to see that it runs")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line of its own")
    options = parser.parse_args(arguments)
    chosen = [name for name in options.only.split(",") if name]
    if unknown := sorted({*chosen} - {*names}):
        parser.error(f"cannot run {', '.join(unknown)}: known are {', '.join(names)}")
    began_s = time.monotonic()
    files: list[Path] = []
    runs = {**{one.scenario: one.arguments() for one in PLAN}, **TABLES}
    for name in (name for name in runs if name in chosen):
        files.append(options.into / f"{name}.json")
        code = compare.main([*_common(options), *runs[name], "--out", str(files[-1])])
        if code != 0:
            return code
    code = _write(options.docs / "compare.md", [f for f in files if f.stem != LOAD], summary={*chosen} == {*names})
    code = code or _write(options.docs / "benchmarks.md", [f for f in files if f.stem in SEEDS_TABLES])
    if code == 0 and options.json:
        print(json.dumps(_summary(files, time.monotonic() - began_s)), flush=True)
    return code


def _write(page: Path, files: Sequence[Path], summary: bool = False) -> int:
    return tables.main([str(page), *map(str, files), *(["--summary"] if summary else [])]) if files else 0


def _common(options: argparse.Namespace) -> list[str]:
    quick = ["--quick"] if options.quick else []
    return ["--seeds", str(options.seeds), "--first-seed", str(options.first_seed), *quick]


def _summary(files: Sequence[Path], seconds: float) -> dict[str, Any]:
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    kept = {
        one["scenario"]: {"best_fixed": one["best_fixed"], "ratios": one["ratios"]}
        for one in documents
        if one.get("ours")
    }
    agree = next((one["rank_correlation"] for one in documents if one.get("table") == "cpu"), None)
    schemes = {name: found["qps"] for one in documents if "schemes" in one for name, found in one["schemes"].items()}
    return {"minutes": seconds / 60.0, "scenarios": kept, "batching_qps": schemes, "rank_correlation": agree}
