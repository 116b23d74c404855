"""`python -m bench react`: arguments, the lines, the JSON line. Never here: a measurement."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence

from bench.demo.daemon import DaemonError
from bench.load import LoadError
from bench.react.run import Plan, ReactError, measure
from bench.server import ServerError
from bench.setup.errors import SetupError
from bench.setup.plugin import make_plugin
from domain.errors import RecoverableError

SAID = """\
From the first snapshot that passes the evidence gate (an inter-token objective broken beyond sampling noise) to the
change that the engine reads back, over many breaches.

A breach is provoked by load: two clients and the cap of the start-up keep the objective, 46 more break it. Once the
daemon has cut the cap, the clients go and an operator's override gives the cap back, until the objective is kept again.
vLLM runs on an emulated GPU whose step grows with the batch; the daemon is a process of its own with the cooldowns at
zero and batch_resize by its rules alone, so that one change answers one breach. The gate is judged from the recorded
views, apart from the policy; a change counts as applied when the daemon's event stream has told of it here, which is
later than it was read back.
"""


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; exit code 0 when it ran, whatever came out."""
    parser = argparse.ArgumentParser(
        prog="python -m bench react", description=SAID, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    plan = Plan()
    parser.add_argument("--breaches", type=int, default=None, help=f"how many (default {plan.breaches})")
    parser.add_argument("--tick-s", type=float, default=plan.tick_s, help=f"the daemon's (default {plan.tick_s:g})")
    parser.add_argument("--quick", action="store_true", help="20 breaches, without --breaches")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line of its own")
    options = parser.parse_args(arguments)
    breaches = options.breaches if options.breaches is not None else 20 if options.quick else plan.breaches
    if not 1 <= breaches <= 10_000:
        parser.error(f"cannot provoke {breaches} breaches: give 1 to 10000")
    if not 0.2 <= options.tick_s <= 5:
        parser.error(f"cannot tick every {options.tick_s:g} s: give 0.2 to 5")
    print(f"{breaches} breaches of an inter-token objective, the daemon at a {options.tick_s:g} s tick", flush=True)
    try:
        make_plugin()
        result = asyncio.run(measure(Plan(breaches, options.tick_s), lambda said: print(said, flush=True)))
    except (SetupError, ServerError, LoadError, DaemonError, ReactError, RecoverableError) as error:
        print(f"cannot go on: {error}", file=sys.stderr)
        return 1
    _print(result)
    if options.json:
        print(json.dumps(result), flush=True)
    return 0


def _print(result: Mapping[str, object]) -> None:
    print(
        f"breach to applied   P50 {result['breach_to_applied_s_p50']} s, P99 {result['breach_to_applied_s_p99']} s, "
        f"most {result['breach_to_applied_s_max']} s of {result['n']} (goal: P99 within {result['goal_s']} s, one tick "
        f"of {result['tick_s']} s, one step of {result['step_s']} s and 0.1 s)"
    )
    print(
        f"load to applied     P50 {result['load_to_applied_s_p50']} s, P99 {result['load_to_applied_s_p99']} s: with "
        "the time that the breach takes to show"
    )
    print(
        f"provoked            {result['provoked']}, of which {result['unanswered']} had no change (the time until they "
        f"were given up counts) and {result['unseen']} no snapshot that passed the gate (not counted)"
    )
