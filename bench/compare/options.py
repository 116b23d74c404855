"""The options that both interpreters read. Belongs here: those. Never: what is done with them; no vLLM, no drawing."""

from __future__ import annotations

import argparse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    """To a parser of either side."""
    parser.add_argument("--scenario", default="shift80", help="which one (default shift80); a wrong name lists them")
    parser.add_argument(
        "--table",
        choices=("batching", "load", "cpu"),
        help="instead of a scenario: the seeds' first table (static batch, dynamic, dynamic with tiers), their second "
        "(10, 30, 50, 100 requests/s), or the order of the contenders on this machine's CPU beside the emulated one",
    )
    parser.add_argument(
        "--gpu", default="A100-80G", help="which emulated GPU (default A100-80G); a wrong name lists them"
    )
    parser.add_argument(
        "--clock",
        choices=("virtual", "real"),
        default="virtual",
        help="real: behind vLLM's API server with the daemon as a process, as long as the scenario says; needs "
        "--contenders (default virtual)",
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many loads each is scored on (default {SEEDS})")
    parser.add_argument("--first-seed", type=int, default=1, help="the first of them, then 1 more each (default 1)")
    parser.add_argument(
        "--contenders", default="", help="names with commas between, as model,vllm_default,fixed-64-512; none: all"
    )
    parser.add_argument("--quick", action="store_true", help="phases of a third, a coarse grid of fixed settings")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line of its own")
    parser.add_argument("--report", type=Path, help="an HTML report with pictures, written there")
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "bench" / "compare.json", help="where the JSON goes")
