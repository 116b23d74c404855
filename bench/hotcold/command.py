"""`python -m bench hotcold`: arguments, the table, the JSON line, the picture. Never here: a measurement."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from bench.hotcold import live, picture, purge_cost
from bench.hotcold.contest import Outcome, hold
from bench.hotcold.loads import HOT_PROMPTS, LOADS, PROMPT_TOKENS

ROOT = Path(__file__).resolve().parents[2]
REQUESTS = 4000
QUICK_REQUESTS = 800


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; exit code 0 when it ran, whatever came out."""
    parser = argparse.ArgumentParser(prog="python -m bench hotcold", description="Hit rates of the two-tier cache.")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_REQUESTS} requests a load instead of {REQUESTS}")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line of its own")
    parser.add_argument("--seed", type=int, default=1, help="of the prompts (default 1)")
    parser.add_argument(
        "--svg", type=Path, default=ROOT / "var" / "bench" / "hotcold.svg", help="where the picture goes"
    )
    options = parser.parse_args(arguments)
    requests = QUICK_REQUESTS if options.quick else REQUESTS
    sizes = (
        f"{live.POOL_BLOCKS} blocks of {live.BLOCK_TOKENS} tokens, one of them vLLM's; hot set {HOT_PROMPTS} prompts "
        f"of {PROMPT_TOKENS} tokens; {requests} requests a load"
    )
    print(sizes)
    print(f"{'load':<10} {'lru':>7} {'tier30':>7} {'tier40':>7} {'belady':>7}   live: {'lru':>7} {'tier30':>7} "
          f"{'tier40':>7} {'rps x':>6}", flush=True)  # fmt: skip
    outcomes = []
    for load in LOADS:
        outcomes.append(hold(load, requests, options.seed))
        print(_row(outcomes[-1]), flush=True)
    purge = purge_cost.measure()
    print(f"purge of half of {purge_cost.BLOCKS} cached blocks: {json.dumps(purge)}")
    options.svg.parent.mkdir(parents=True, exist_ok=True)
    options.svg.write_text(picture.draw(outcomes, sizes), encoding="utf-8")
    print(f"picture: {options.svg}")
    if options.json:
        pool = {"blocks": live.POOL_BLOCKS, "block_tokens": live.BLOCK_TOKENS, "seed": options.seed}
        loads = {outcome.load.name: outcome.to_json() for outcome in outcomes}
        print(json.dumps({"loads": loads, "pool": pool, "purge": purge}))
    return 0


def _row(outcome: Outcome) -> str:
    replayed = " ".join(f"{outcome.replayed[name]:7.2%}" for name in ("lru", "tier30", "tier40", "belady"))
    lived = " ".join(f"{outcome.live[name].hit_rate:7.2%}" for name in ("lru", "tier30", "tier40"))
    return f"{outcome.load.name:<10} {replayed}         {lived} {outcome.rps_ratio:6.3f}"
