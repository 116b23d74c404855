"""`python -m bench sensors`: arguments, the tables, the JSON line. Never here: a measurement."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from statistics import fmean

from bench.load import LoadError
from bench.sensors import emulated, replay, report, tick
from bench.sensors.emulated import Emulated
from bench.server import ServerError
from bench.setup.errors import SetupError
from bench.setup.plugin import make_plugin
from domain.errors import RecoverableError

PARTS = ("replay", "tick", "emulated")
GOAL_TICK_MS = 10.0


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; exit code 0 when it ran, whatever came out."""
    parser = argparse.ArgumentParser(prog="python -m bench sensors", description="Errors and cost of the sensors.")
    parser.add_argument("--quick", action="store_true", help="shorter replays, pauses and load")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line of its own")
    parser.add_argument("--seed", type=int, default=1, help="of the draws (default 1)")
    parser.add_argument("--only", choices=PARTS, default=None, help="one part of it")
    options = parser.parse_args(arguments)
    result: dict[str, object] = {}
    try:
        for part, run in zip(PARTS, (_replay, _tick, _emulated), strict=True):
            if options.only in (None, part):
                result |= run(quick=options.quick, seed=options.seed)
    except (SetupError, ServerError, LoadError, RecoverableError, tick.TickError) as error:
        print(f"cannot go on: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(result), flush=True)
    return 0


def _replay(*, quick: bool, seed: int) -> dict[str, object]:
    cases = asyncio.run(replay.replay_all(15 if quick else 60, seed))
    print("P99 and share above the objective, estimated at every scrape, against the exact figures of the same samples")
    print(f"{'load':<12} {'latency':<22} {'bounds':<9} {'n':>6} {'exact P99':>10} {'estimate':>10} {'bucket':>9} "
          f"{'worst error':>11} {'of bucket':>9} {'share off':>9}")  # fmt: skip
    for case in cases:
        print(report.row(case))
    summary = report.of_replay(cases)
    print(f"worst P99 error {summary['p99_rel_error']:.1%} of the P99, {summary['p99_error_of_bucket']:.3f} of the "
          f"bucket's width; share above the objective off by {summary['violation_abs_error']:g} with a bound on it, "
          f"by up to {summary['violation_abs_error_vllm_bounds']:.4f} without")  # fmt: skip
    print(f"{summary['p99_above_bounds']} of {summary['estimates']} P99 lay above the highest finite bound, "
          f"{summary['p99_above_bounds_told']} of them were told as such, and "
          f"{summary['p99_within_bounds_told_above']} others")  # fmt: skip
    return summary


def _tick(*, quick: bool, seed: int) -> dict[str, object]:
    costs = []
    for records in tick.RECORDS:
        cost = asyncio.run(tick.measure(records, *((100, 0.05) if quick else (150, 0.25))))
        costs.append(cost)
        print(f"CPU of one tick's sensing, {len(cost.whole_ms)} ticks: mean {fmean(cost.whole_ms):.2f} ms, 95 % under "
              f"{report.p95(cost.whole_ms):.2f} ms (goal {GOAL_TICK_MS:g}); {cost.metrics_bytes / 1e3:.0f} KB of "
              f"metrics, {records} records; NVML: {cost.gpus}")  # fmt: skip
        for name, one in report.parts(cost).items():
            print(f"  {name:<18} mean {one['mean']:6.2f} ms   95 % {one['p95']:6.2f} ms", flush=True)
    return report.of_tick(costs)


def _emulated(*, quick: bool, seed: int) -> dict[str, object]:
    make_plugin()
    print("a real vLLM on an emulated GPU: end-to-end latency from its histogram, against what others timed")
    found: dict[str, Emulated] = {}
    for name, on_bound in (("vllm", False), ("on objective", True)):
        if on_bound or not quick:
            found[name] = asyncio.run(emulated.measure(10.0 if quick else 30.0, on_bound=on_bound))
            for line in report.emulated_rows(name, found[name]):
                print(line, flush=True)
    return {"emulated": {name: report.of_emulated(one) for name, one in found.items()}}
