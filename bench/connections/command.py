"""`python -m bench connections`: arguments, the table, the JSON line. Never here: a measurement."""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bench.connections.client import Refused
from bench.connections.nginx import NginxError
from bench.connections.nginx_files import Unfit
from bench.connections.run import Plan, measure
from bench.connections.setting_up import TURNS
from bench.connections.style import STYLES
from bench.server import ServerError
from bench.setup.debian import make_debian
from bench.setup.errors import SetupError
from bench.setup.plugin import make_plugin

FULL = Plan(dialogues=50, hold_s=20.0, ceiling=10_000)
QUICK = Plan(dialogues=10, hold_s=3.0, ceiling=2_000)
GOAL_SHARE, GOAL_HELD = 0.2, 1500


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; exit code 0 when it ran, whatever came out."""
    parser = argparse.ArgumentParser(
        prog="python -m bench connections", description="Short, plain long and tuned long connections through nginx."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"fewer requests, at most {QUICK.ceiling} connections instead of {FULL.ceiling}",
    )
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line of its own")
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else FULL
    print(
        f"TLS to a real nginx before a real vLLM: {plan.dialogues} dialogues of {TURNS} streamed requests, then as "
        f"many connections as hold for {plan.hold_s:g} s, {plan.ceiling} at most",
        flush=True,
    )
    try:
        make_plugin()
        make_debian()
        result = asyncio.run(measure(plan, lambda said: print(said, flush=True)))
    except (SetupError, ServerError, NginxError, Unfit, Refused, OSError, http.client.HTTPException) as error:
        print(f"cannot go on: {error}", file=sys.stderr)
        return 1
    _print(result)
    if options.json:
        print(json.dumps(result), flush=True)
    return 0


def _print(result: Mapping[str, Any]) -> None:
    print(f"{'':<8}{'set-up':>12}{'a connection':>16}{'memory':>14}{'held':>10}")
    for style in STYLES:
        one = result[style.name]
        memory = "unknown" if one["mb_per_conn"] is None else f"{one['mb_per_conn']:.3f} MB"
        print(
            f"{style.name:<8}{one['setup_ms']:>9.2f} ms{one['setup_ms_per_conn']:>13.2f} ms{memory:>14}"
            f"{one['max_ok']:>10}"
            + (f"   then: {one['first_error']}" if one["first_error"] else "   as many as were tried")
        )
    share = result["tuned"]["setup_ms"] / result["short"]["setup_ms"]
    print(f"tuned set-up is {share:.3f} of short's (goal at most {GOAL_SHARE:g}); goal held: {GOAL_HELD}")
