"""`python -m bench overhead`: arguments, the table, the JSON line. Never here: a measurement."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from bench import in_vllm

GOALS_US = {32: (3.0, 190.0), 256: (8.0, 1370.0)}
"""By requests running: what may be added where schedule() takes so long. Machines differ, so what is held against it is
the share of schedule(), both timed in the same slices.
"""
PAIRS = {32: 24, 256: 12}
QUICK_PAIRS = {32: 8, 256: 3}
CASES = (
    {"async_scheduling": False, "window": False, "turnover": False},
    {"async_scheduling": True, "window": False, "turnover": False},
    {"async_scheduling": False, "window": True, "turnover": False},
    {"async_scheduling": False, "window": False, "turnover": True},
)
"""The first two are the headline: both schedulers, requests that decode, the admission window off as vLLM starts."""


def main(arguments: Sequence[str]) -> int:
    """Runs the bench where vLLM is; exit code 0 when it ran, whatever came out."""
    return in_vllm.run("bench.overhead", arguments, _run)


def _run(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench overhead", description="What the plugin costs vLLM.")
    parser.add_argument("--quick", action="store_true", help="fewer pairs, one round of servers")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line of its own")
    parser.add_argument("--only", choices=("steps", "server"), default=None, help="one half of it")
    options = parser.parse_args(arguments)
    result: dict[str, object] = {}
    if options.only != "server":
        result |= _steps(QUICK_PAIRS if options.quick else PAIRS)
    if options.only != "steps":
        from bench.load import LoadError
        from bench.server import ServerError

        try:
            result |= _server(quick=options.quick)
        except (ServerError, LoadError) as error:
            print(f"cannot go on: {error}", file=sys.stderr)
            return 1
    if options.json:
        print(json.dumps(result), flush=True)
    return 0


def _steps(pairs: dict[int, int]) -> dict[str, object]:
    from bench.overhead.steps import measure

    print("CPU time per step, us; on: lease, statistics, counting of evictions; with window: admission window too")
    print("running scheduler window turnover  schedule()    step   added  share   goal   whole steps: plugin - stock")
    added: dict[str, float] = {}
    schedule: dict[str, float] = {}
    shares: dict[str, float] = {}
    details: list[dict[str, object]] = []
    for running, (goal_us, of_schedule_us) in GOALS_US.items():
        costs = []
        for case in CASES:
            cost = measure(running, pairs[running], **case)
            costs.append(cost)
            details.append({"running": running, **case, **cost.to_json()})
            kind = "async" if case["async_scheduling"] else "sync"
            window, turnover = ("on" if case[name] else "off" for name in ("window", "turnover"))
            print(f"{running:>7} {kind:>9} {window:>6} {turnover:>8} {cost.schedule_us:>11.0f} {cost.step_us:>7.0f} "
                  f"{cost.added_us:>7.2f} {cost.share:>6.2%} {goal_us / of_schedule_us:>6.2%}   "
                  f"{cost.to_json()['whole_step_us']}", flush=True)  # fmt: skip
        added[str(running)] = round(max(cost.added_us for cost in costs[:2]), 2)
        schedule[str(running)] = round(max(cost.schedule_us for cost in costs[:2]), 1)
        shares[str(running)] = round(max(cost.share for cost in costs[:2]), 5)
    return {"added_us": added, "schedule_us": schedule, "share": shares, "steps": details}


def _server(*, quick: bool) -> dict[str, object]:
    from bench.overhead import server
    from bench.setup.plugin import make_plugin

    make_plugin()
    plan = server.Plan(rounds=1, pairs=4, slice_s=3.0) if quick else server.Plan(rounds=4, pairs=3, slice_s=10.0)
    print(f"real server, {server.CLIENTS} clients, {plan.rounds} x {plan.pairs} pairs of {plan.slice_s:g} s; "
          "on: lease, runtime and statistics read once a second", flush=True)  # fmt: skip

    def tell(number: int, pair: server.Pair) -> None:
        print(f"round {number + 1}: stock {pair.stock_rps:6.1f}/s, plugin {pair.plugin_rps:6.1f}/s, "
              f"ratio {pair.ratio:.3f}; CPU per request {pair.stock_cpu_ms:.2f} and {pair.plugin_cpu_ms:.2f} ms",
              flush=True)  # fmt: skip

    pairs = asyncio.run(server.measure(plan, tell))
    result = server.summary(pairs)
    for name, said in (("rps", "requests/s"), ("cpu", "requests per CPU second")):
        print(f"{said}: ratio {result[f'server_{name}_ratio']}, 95 % from {result[f'server_{name}_ratio_lower95']} to "
              f"{result[f'server_{name}_ratio_upper95']}")  # fmt: skip
    return result
