"""The seeds' stepped load: fixed stages first, then ever more until the server has had enough.

    locust -f stepped.py --headless

Against any OpenAI-compatible server: --host (default http://127.0.0.1:8000). 10, 30 and 50 QPS for 15 minutes each,
then 20 QPS more every minute until the error rate passes 1 %, P99 passes 3 s or memory is out; at the end the slope of
P99 over the stages and the knee. Exit code 0: a limit ended it; 1: it cannot run; 2: wrong arguments; 3: the highest
rate was borne; 4: no answer (the load generator was late, or memory unknown); 130: interrupted. Belongs here: the
arguments, and a run in locust's clothes. Never: the run (run.py).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # locust puts this folder there, not the one above

from locust import FastHttpUser, LoadTestShape, events, task
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.runners import LocalRunner

from loadtest import memory, report, script
from loadtest.answer import Answer
from loadtest.asking import ask
from loadtest.ledger import Account
from loadtest.memory import MemoryUnknown
from loadtest.options import DEFAULT_HOST, Common, add_common, common, number, numbers
from loadtest.plan import Limits, Plan
from loadtest.prompts import Prompts
from loadtest.run import Run, Settings
from loadtest.target import TargetError, checked, headers, model_of

PLAN, LIMITS = Plan(), Limits()


@events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]  # locust does not type it
def _arguments(parser: LocustArgumentParser) -> None:
    add_common(parser)
    add = parser.add_argument_group("The steps (the seeds' numbers are the defaults)").add_argument
    stages = ",".join(f"{qps:g}" for qps in PLAN.stages_qps)
    add("--stages", type=numbers, default=PLAN.stages_qps, help=f"QPS of the fixed stages (default {stages})")
    add("--stage-s", type=number(1), default=PLAN.stage_s, help=f"seconds of each (default {PLAN.stage_s:g})")
    add("--step-qps", type=number(0.1), default=PLAN.step_qps, help=f"then QPS more (default {PLAN.step_qps:g})")
    add("--step-s", type=number(1), default=PLAN.step_s, help=f"every so many seconds (default {PLAN.step_s:g})")
    add("--max-qps", type=number(0.1), default=PLAN.max_qps, help=f"but never above (default {PLAN.max_qps:g})")
    add = parser.add_argument_group("What ends it").add_argument
    said = f"share of requests that failed (default {LIMITS.error_ratio:g})"
    add("--max-error-ratio", type=number(0, 1), default=LIMITS.error_ratio, help=said)
    said = f"P99 from due to answered, in seconds (default {LIMITS.p99_s:g})"
    add("--max-p99-s", type=number(0.001), default=LIMITS.p99_s, help=said)
    said = "where memory is read: kv is vLLM's /metrics, nvml this machine's GPUs, none does not watch (default kv)"
    add("--memory", choices=memory.KINDS, default="kv", help=said)
    said = "unanswered requests at a time; past it one that is due counts as failed (default 2000)"
    add("--max-open", type=number(1, integer=True), default=2000, help=said)
    add("--report", type=Path, default=None, help="file for the report as JSON")
    parser.set_defaults(only_summary=True)


@events.init.add_listener  # type: ignore[untyped-decorator]  # locust does not type it
def _prepare(environment: Environment, **_: Any) -> None:
    """Before the first request. Ends the process with a sentence when the test cannot run."""
    parsed = environment.parsed_options
    assert parsed is not None
    if not isinstance(environment.runner, LocalRunner) or not parsed.headless:
        sys.exit("cannot run stepped.py in parts or with the web page: one clock makes the arrivals; use --headless")
    if parsed.max_qps < parsed.stages[-1]:
        print(f"cannot offer {parsed.stages[-1]:g} QPS under --max-qps {parsed.max_qps:g}: raise it", file=sys.stderr)
        sys.exit(2)
    options = common(parsed)
    try:
        host = checked(environment.host or DEFAULT_HOST, allow_remote=options.allow_remote)
        model = model_of(host, options)
        watched = memory.source(parsed.memory, host, headers(options))
        if watched is not None:
            watched.read()
    except TargetError as error:
        sys.exit(str(error))
    except MemoryUnknown as error:
        sys.exit(
            f"cannot watch the memory of {host}: {error}; name where it is read with --memory, or go on without this "
            "limit by --memory none"
        )
    Arrivals.options, Arrivals.prompts = options, Prompts(options, model)
    Arrivals.network_timeout, Arrivals.concurrency = options.request_timeout_s, parsed.max_open
    plan = Plan(parsed.stages, parsed.stage_s, parsed.step_qps, parsed.step_s, parsed.max_qps)
    limits = Limits(parsed.max_error_ratio, parsed.max_p99_s)
    Arrivals.settings = Settings(plan, limits, watched, parsed.max_open, options.seed)


class Arrivals(FastHttpUser):
    """locust's one user: it sends for all the people of the load."""

    host = DEFAULT_HOST
    fixed_count = 1
    options: Common
    prompts: Prompts
    settings: Settings
    under_way: Run | None = None

    @task
    def all(self) -> None:
        """The whole run, once."""
        if Arrivals.under_way is None:
            print(report.HEADER, flush=True)
            Arrivals.under_way = Run(self.settings, self._send, _tell)
            Arrivals.under_way.go()

    def _send(self, due_s: float) -> Answer:
        return ask(self.client, self.environment.stats, self.options, self.prompts.draw(), due_s)


class UntilEnded(LoadTestShape):
    """Ends locust when the run is over."""

    def tick(self) -> tuple[int, float] | None:
        """One user, until then."""
        return None if Arrivals.under_way is not None and Arrivals.under_way.over else (1, 1.0)


@events.quitting.add_listener  # type: ignore[untyped-decorator]  # locust does not type it
def _report(environment: Environment, **_: Any) -> None:
    run, parsed = Arrivals.under_way, environment.parsed_options
    if run is None or parsed is None:
        environment.process_exit_code = 1
        return
    ended = run.settle()
    host, limits = environment.host or DEFAULT_HOST, run.settings.limits
    made = report.document(host, run.settings.plan, limits, parsed.memory, run.accounts, ended)
    said = report.summary(run.accounts, limits, ended)
    print("\n".join(("", report.HEADER, *map(report.row, run.accounts), "", *said)))
    if parsed.report is not None:
        parsed.report.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    environment.process_exit_code = report.code(ended)


def _tell(account: Account) -> None:
    print(report.row(account), flush=True)


if __name__ == "__main__":
    script.run(__file__, __doc__.partition("Belongs here")[0], _arguments)
