"""`python -m bench proof`: arguments, one comparison after another, then the page. Never here: a figure."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import compare, tables
from bench.compare.options import ROOT
from bench.proof.plan import PLAN

SEEDS = 2
FIRST_SEED = 11
"""Others than those the policies were made on (1 to 3); of 11 the flash crowd alone was seen before."""
BATCHING = "batching"


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: all ran and the page has their tables; else that of the first that did not, and the page stays."""
    names = [one.scenario for one in PLAN] + [BATCHING]
    parser = argparse.ArgumentParser(
        prog="python -m bench proof", description="Run every comparison of a page again and write its tables."
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"loads each is scored on (default {SEEDS})")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, help=f"(default {FIRST_SEED})")
    parser.add_argument("--only", default=",".join(names), help=f"with commas between: {', '.join(names)}; none: all")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "compare.md", help="default docs/compare.md")
    parser.add_argument("--into", type=Path, default=ROOT / "var" / "bench" / "proof", help="where the JSON files go")
    parser.add_argument("--quick", action="store_true", help="phases of a third: to see that it runs")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line of its own")
    options = parser.parse_args(arguments)
    chosen = [name for name in options.only.split(",") if name]
    if unknown := sorted({*chosen} - {*names}):
        parser.error(f"cannot run {', '.join(unknown)}: known are {', '.join(names)}")
    began_s = time.monotonic()
    files: list[Path] = []
    for what, name in [*((one.arguments(), one.scenario) for one in PLAN), (["--table", BATCHING], BATCHING)]:
        if name not in chosen:
            continue
        files.append(options.into / f"{name}.json")
        code = compare.main([*what, *_common(options), "--out", str(files[-1])])
        if code != 0:
            return code
    summary = ["--summary"] if {*chosen} == {*names} else []
    code = tables.main([str(options.page), *map(str, files), *summary])
    if code == 0 and options.json:
        print(json.dumps(_summary(files, time.monotonic() - began_s)), flush=True)
    return code


def _common(options: argparse.Namespace) -> list[str]:
    quick = ["--quick"] if options.quick else []
    return ["--seeds", str(options.seeds), "--first-seed", str(options.first_seed), *quick]


def _summary(files: Sequence[Path], seconds: float) -> dict[str, Any]:
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    kept = {
        one["scenario"]: {"best_fixed": one["best_fixed"], "ratios": one["ratios"]}
        for one in documents
        if "scenario" in one
    }
    schemes = {name: found["qps"] for one in documents if "schemes" in one for name, found in one["schemes"].items()}
    return {"minutes": seconds / 60.0, "scenarios": kept, "batching_qps": schemes}
