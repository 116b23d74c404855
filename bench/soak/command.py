"""`python -m bench soak`: arguments, the JSON line, exit code.

Belongs here: what a caller may ask for, and errors as one sentence. Never: the run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from bench.demo.daemon import DaemonError
from bench.load import LoadError
from bench.server import ServerError
from bench.setup import places
from bench.setup.errors import SetupError
from bench.setup.plugin import make_plugin
from bench.soak import plan
from bench.soak.plan import Planned
from bench.soak.run import soak
from bench.soak.screen import Screen
from domain.errors import GovernorError

LINE_EVERY_S = 10.0
QUICK_LINE_EVERY_S = 5.0
MAX_MINUTES = 24 * 60.0


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: it ran, whatever came out. 1: a part of it ended by itself. 2: the arguments cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m bench soak",
        description="A real vLLM under changing load, the daemon steering it, and one fault after another.",
    )
    parser.add_argument("--minutes", type=float, default=None, help=f"how long (default {plan.MINUTES:g})")
    parser.add_argument("--quick", action="store_true", help=f"{plan.QUICK_MINUTES:g} minutes, each fault once")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line of its own")
    options = parser.parse_args(arguments)
    minutes = options.minutes if options.minutes is not None else plan.QUICK_MINUTES if options.quick else plan.MINUTES
    if not 0 < minutes <= MAX_MINUTES:
        parser.error(f"cannot soak for {minutes:g} minutes: give at most {MAX_MINUTES:g}")
    try:
        planned = plan.schedule(minutes, quick=options.quick)
    except ValueError as error:
        parser.error(str(error))
    try:
        make_plugin()
        result = asyncio.run(_unless_terminated(planned, minutes, quick=options.quick))
    except (GovernorError, SetupError, ServerError, LoadError, DaemonError) as error:
        print(f"cannot go on: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted; nothing is left running", file=sys.stderr)
        return 130
    if options.json:
        print(json.dumps(result), flush=True)
    return 0


async def _unless_terminated(planned: Sequence[Planned], minutes: float, *, quick: bool) -> dict[str, Any]:
    """SIGTERM and a closed terminal clean up as Ctrl-C does."""
    folder = places.VAR / "soak" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    every_s = QUICK_LINE_EVERY_S if quick else LINE_EVERY_S
    work = asyncio.ensure_future(soak(planned, minutes, folder, Screen(), every_s))
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    return await work
