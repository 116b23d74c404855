"""`python -m bench footprint`: arguments, the table, the JSON line. Never here: a measurement."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence

from bench.demo.daemon import DaemonError
from bench.footprint.process import ProcessGone, Sample
from bench.footprint.run import Plan, measure
from bench.load import LoadError
from bench.server import ServerError
from bench.setup.errors import SetupError
from bench.setup.plugin import make_plugin

GOAL_CPU_SHARE = 0.02
GOAL_RSS_MB = 110.0
MINUTES = 5.0
QUICK_MINUTES = 1.0
TOLD_EVERY_S = 30.0


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; exit code 0 when it ran, whatever came out."""
    parser = argparse.ArgumentParser(prog="python -m bench footprint", description="CPU and memory of the daemon.")
    parser.add_argument("--minutes", type=float, default=None, help=f"how long is counted (default {MINUTES:g})")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_MINUTES:g} minute, without --minutes")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line of its own")
    options = parser.parse_args(arguments)
    minutes = options.minutes if options.minutes is not None else QUICK_MINUTES if options.quick else MINUTES
    if not 0.1 <= minutes <= 24 * 60:
        parser.error(f"cannot count for {minutes:g} minutes: give 0.1 to 1440")
    print(f"the daemon at a 1 s tick, mode auto, for {minutes:g} min beside a real vLLM under light load", flush=True)
    try:
        make_plugin()
        result = asyncio.run(measure(Plan(measure_s=minutes * 60), _Teller()))
    except (SetupError, ServerError, LoadError, DaemonError, ProcessGone) as error:
        print(f"cannot go on: {error}", file=sys.stderr)
        return 1
    _print(result)
    if options.json:
        print(json.dumps(result), flush=True)
    return 0


class _Teller:
    """A line each half minute."""

    def __init__(self) -> None:
        self._first: Sample | None = None
        self._told_s = 0.0

    def __call__(self, at_s: float, sample: Sample) -> None:
        if self._first is None:
            self._first = sample
        if at_s - self._told_s >= TOLD_EVERY_S:
            self._told_s = at_s
            share = (sample.cpu_s - self._first.cpu_s) / at_s
            print(f"{at_s:6.0f} s   {share:7.2%} of a core   {sample.rss_mb:6.1f} MB", flush=True)


def _print(result: Mapping[str, object]) -> None:
    print(f"CPU     {result['cpu_share']:.2%} of one core (goal under {GOAL_CPU_SHARE:.0%}); start-up "
          f"{result['start_up_cpu_s']} s, apart")  # fmt: skip
    print(f"memory  {result['rss_mb']} MB at most (goal under {GOAL_RSS_MB:g} MB); growth after the first minute "
          f"{result['rss_growth_mb_per_min']} MB/min")  # fmt: skip
    print(f"beside  {result['requests']} requests served ({result['failed_requests']} failed), {result['scrapes']} "
          f"scrapes of {result['scrape_kb']} KB ({result['failed_scrapes']} failed), "
          f"history {result['history_kb']} KB")  # fmt: skip
