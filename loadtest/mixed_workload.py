"""The seeds' mixed load, hot and cold prompts, from clients that read and think between two questions.

    locust -f mixed_workload.py --headless -u 1000 -r 100

Against any OpenAI-compatible server: --host (default http://127.0.0.1:8000). A thousand clients that think for 15 s
ask some 60 times a second. It ends by itself after 15 minutes unless -t says otherwise; TTFT and ITL are in locust's
tables beside the requests. Belongs here: one client, and the checks before the first. Never: an open-loop load
(stepped.py).
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # locust puts this folder there, not the one above

from locust import FastHttpUser, events, task
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment

from loadtest import script
from loadtest.asking import ask
from loadtest.options import DEFAULT_HOST, add_common, common, number
from loadtest.prompts import Prompts
from loadtest.target import TargetError, checked, model_of

THINK_S = 15.0
RUN_S = 900
"""As long as one stage of the seeds' stepped test."""
STOP_S = 60.0
"""At the end nothing new is asked, and whoever waits for an answer gets it."""


@events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]  # locust does not type it
def _arguments(parser: LocustArgumentParser) -> None:
    add_common(parser)
    said = f"mean pause of a client between an answer and its next question, drawn anew each time (default {THINK_S:g})"
    clients = parser.add_argument_group("The clients")
    clients.add_argument("--think-s", type=number(0), default=THINK_S, help=said)
    parser.set_defaults(run_time=RUN_S, stop_timeout=STOP_S)


@events.init.add_listener  # type: ignore[untyped-decorator]  # locust does not type it
def _check(environment: Environment, **_: Any) -> None:
    """Before the first client: which model, and may it be loaded. Ends the process with a sentence otherwise."""
    parsed = environment.parsed_options
    assert parsed is not None
    options = common(parsed)
    try:
        host = checked(environment.host or DEFAULT_HOST, allow_remote=options.allow_remote)
        model = model_of(host, options)
    except TargetError as error:
        sys.exit(str(error))
    MixedUser.options = options
    MixedUser.prompts = Prompts(options, model, stream=getattr(environment.runner, "worker_index", 0))
    MixedUser.network_timeout = options.request_timeout_s
    MixedUser.think_s = parsed.think_s


class MixedUser(FastHttpUser):
    """One client: asks, reads the answer to its end, thinks."""

    host = DEFAULT_HOST
    options: Any
    prompts: Prompts
    think_s: float
    met: bool = False

    def wait_time(self) -> float:
        """Seconds; exponential, as of people who know nothing of each other."""
        return random.expovariate(1 / self.think_s) if self.think_s > 0 else 0.0

    @task
    def ask(self) -> None:
        """One question and its answer. Not at once: who comes thinks first, so that the rate is the steady one from the
        beginning.
        """
        if not self.met:
            self.met = True
            return
        ask(self.client, self.environment.stats, self.options, self.prompts.draw(), time.perf_counter())


if __name__ == "__main__":
    script.run(__file__, __doc__.partition("Belongs here")[0], _arguments)
