"""`python -m bench rest`: arguments, the table, the JSON line. Never here: a measurement."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bench.demo.daemon import DaemonError
from bench.footprint.process import ProcessGone
from bench.load import LoadError
from bench.rest.child import ChildError
from bench.rest.run import Plan, measure
from bench.server import ServerError
from bench.setup.errors import SetupError
from bench.setup.plugin import make_plugin

GOAL_P99_MS = 25.0
GOAL_JITTER_MS = 50.0
MINUTES = 1.0
FILL_S = 200.0
"""Then what the daemon keeps most of is full: its last 200 events, two minutes of evidence, one of readings."""
QUICK_S = 15.0


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; exit code 0 when it ran, whatever came out."""
    parser = argparse.ArgumentParser(prog="python -m bench rest", description="Answers of the daemon under load.")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"how long is asked (default {MINUTES:g})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_S:g} s, too short to tell whether memory grows")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line of its own")
    options = parser.parse_args(arguments)
    if not 0.1 <= options.minutes <= 24 * 60:
        parser.error(f"cannot ask for {options.minutes:g} minutes: give 0.1 to 1440")
    plan = Plan(QUICK_S, QUICK_S) if options.quick else Plan(options.minutes * 60, FILL_S)
    print(
        f"GET /api/v1/status {plan.rps:g} times a second for {plan.measure_s:g} s and {plan.streams} event streams; "
        f"the daemon steers a vLLM at a {plan.tick_s:g} s tick",
        flush=True,
    )
    try:
        make_plugin()
        result = asyncio.run(measure(plan, lambda said: print(said, flush=True)))
    except (SetupError, ServerError, LoadError, DaemonError, ProcessGone, ChildError) as error:
        print(f"cannot go on: {error}", file=sys.stderr)
        return 1
    _print(result)
    if options.json:
        print(json.dumps(result), flush=True)
    return 0


def _print(result: Mapping[str, object]) -> None:
    print(f"answers   {result['rps']} a second, {result['errors']} of {result['requests']} failed; P50 "
          f"{result['p50_ms']} ms, P99 {result['p99_ms']} ms (goal under {GOAL_P99_MS:g} ms), worst "
          f"{result['worst_ms']} ms")  # fmt: skip
    print(f"asking    requests left {result['sent_late_p99_ms']} ms late (P99), which is in the figures above")
    print(f"ticks     at most {result['tick_jitter_ms']} ms late (goal under {GOAL_JITTER_MS:g} ms), "
          f"{result['quiet_tick_jitter_ms']} ms before the requests; {result['ticks']} seen, "
          f"{result['ticks_missed']} left out")  # fmt: skip
    print(f"streams   {result['streams_open_at_end']} of {result['streams']} open at the end, "
          f"{result['events_received']} events, {result['ticks_not_received']} ticks not received")  # fmt: skip
    print(f"daemon    {result['cpu_share']:.0%} of a core")
    print(_memory(result))


def _memory(result: Mapping[str, Any]) -> str:
    told = f"memory    {result['rss_mb']} MB at most"
    if result["more_rss_growth_mb_per_min"] is None:
        return f"{told}; the run is too short to tell whether it grows"
    before, after = result["quiet_rss_growth_mb_per_min"]
    return (
        f"{told}; {result['rss_growth_mb_per_min']} MB a minute more with requests, {before} before them and {after} "
        f"after: they add {result['more_rss_growth_mb_per_min']} (goal under "
        f"{result['goal_more_rss_growth_mb_per_min']})"
    )
