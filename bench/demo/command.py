"""`python -m bench demo`: arguments, the engine to steer, exit code.

Belongs here: what a caller may ask for, and errors as one sentence. Never: the phases.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from bench.demo import plan, target
from bench.demo.daemon import DaemonError
from bench.demo.run import STATIC_BATCH, demonstrate
from bench.demo.screen import Screen
from bench.demo.target import LOAD_LIMIT_S, Target
from bench.load import LoadError, LoadOptions
from bench.server import ServerError, VllmServer
from bench.server_options import VllmOptions
from bench.setup import places
from domain.decision import Mode
from domain.errors import EngineRefused, GovernorError

START_UP_MAXIMUM = 64
MODEL = "tiny"


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: it ran. 1: a step failed, and one sentence says which. 2: the arguments cannot be used."""
    options = _parse(arguments)
    try:
        result = asyncio.run(_unless_terminated(options))
    except (GovernorError, ServerError, LoadError, DaemonError) as error:
        print(f"cannot go on: {error}", file=sys.stderr)
        if options.engine and options.token_file is None and isinstance(error, EngineRefused):
            print("give TOKEN_FILE=path, the file that VLLM_GOVERNOR_TOKEN_FILE named when it started", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted before it began", file=sys.stderr)
        return 130
    print(json.dumps(result), flush=True)
    return 0


class _Parser(argparse.ArgumentParser):
    """Who typed `make run` has no use for the usage of a module: the sentence is enough."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"cannot go on: {message}\n")


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m bench demo",
        description="Start a real vLLM with a tiny model here, put it under load and let the governor steer it.",
        epilog="The last line of output is one JSON object. Options can come from the environment, as make run does.",
    )
    env = os.environ.get
    parser.add_argument("--duration", type=_duration, default=env("DURATION") or "90", metavar="S",
                        help="seconds of load, 40 at least; 0 until Ctrl-C (DURATION, default 90)")  # fmt: skip
    parser.add_argument("--mode", choices=[Mode.AUTO.value, Mode.OBSERVE.value], default=env("MODE") or Mode.AUTO.value,
                        help="observe changes nothing (MODE)")  # fmt: skip
    parser.add_argument("--engine", default=env("ENGINE") or None, metavar="URL",
                        help="steer a vLLM that already runs (ENGINE)")  # fmt: skip
    parser.add_argument("--token-file", type=Path, default=env("TOKEN_FILE") or None, metavar="FILE",
                        help="its admin token (TOKEN_FILE)")  # fmt: skip
    parser.add_argument("--clients", type=int, default=env("CLIENTS") or None, metavar="N",
                        help="clients of the load; 0 sends none (CLIENTS, default 64)")  # fmt: skip
    parser.add_argument("--port", type=int, default=None, help="port of our own vLLM (default: a free one)")
    parser.add_argument("--quick", action="store_true", help="the shortest run")
    parser.add_argument("--json", action="store_true", help="accepted for all benches: the last line always is JSON")
    options = parser.parse_args(arguments)
    if options.mode not in (Mode.AUTO.value, Mode.OBSERVE.value):  # a default is not checked by argparse
        parser.error(f"cannot use MODE={options.mode}: it is auto or observe")
    if options.engine is not None and not urlsplit(options.engine).hostname:
        parser.error(f"cannot use ENGINE={options.engine}: give an address like http://127.0.0.1:8000")
    if options.clients is not None and options.clients < 0:
        parser.error(f"cannot use {options.clients} clients: give 0 or more")
    if options.quick:
        options.duration = plan.MIN_DURATION_S
    return options


def _duration(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if seconds != 0 and not plan.MIN_DURATION_S <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(
            f"cannot run for DURATION={text}: give {plan.MIN_DURATION_S:.0f} to 86400 seconds, or 0 for until Ctrl-C"
        )
    return seconds


async def _unless_terminated(options: argparse.Namespace) -> dict[str, Any]:
    """SIGTERM and a closed terminal clean up as Ctrl-C does."""
    work = asyncio.ensure_future(_demonstrate(options))
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    return await work


async def _demonstrate(options: argparse.Namespace) -> dict[str, Any]:
    screen = Screen()
    folder = places.ROOT / "var" / "demo" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        if options.engine is not None:
            found = await target.attach(options.engine.rstrip("/"), options.token_file, options.clients)
        else:
            found = await _own(stack, screen, folder, options)
        screen.say(found.note or f"vLLM serves at {found.url}.")
        steps = plan.steps(options.duration, STATIC_BATCH, loaded=found.load is not None)
        return await demonstrate(found, steps, folder, screen, Mode(options.mode))


async def _own(stack: AsyncExitStack, screen: Screen, folder: Path, options: argparse.Namespace) -> Target:
    screen.say("Starting vLLM with a tiny model on the CPU (about half a minute) ...")
    last: list[str] = []

    def progress(waited_s: float, doing: str) -> None:
        if last != [doing]:
            last[:] = [doing]
            screen.say(f"  {waited_s:3.0f} s  {doing}")

    settings = VllmOptions(max_num_seqs=START_UP_MAXIMUM, port=options.port)
    server = await stack.enter_async_context(VllmServer(folder / "vllm", settings, on_progress=progress))
    clients = 64 if options.clients is None else options.clients
    load = LoadOptions(clients=clients, limit_s=LOAD_LIMIT_S) if clients else None
    return Target(server.url, server.token_file, MODEL, load, check=server.check)
