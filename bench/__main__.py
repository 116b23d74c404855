"""`python -m bench NAME [--quick] [--json]`: runs one bench by name.

The list of names and the dispatch belong here. What a bench does never does; each takes the remaining arguments and
returns an exit code.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence

#: name -> (module with `main(arguments) -> exit code`, what it shows)
BENCHES = {
    "engines": ("bench.engines", "the plugin's tests on several versions of vLLM; writes docs/compatibility.md"),
    "hotcold": ("bench.hotcold", "hit rates of the two-tier cache against LRU and Belady's optimum, a purge's cost"),
    "overhead": ("bench.overhead", "what the plugin costs a step, and a real server under load"),
    "sensors": ("bench.sensors", "errors of the latency estimates against known latencies, CPU of one tick's sensing"),
    "footprint": ("bench.footprint", "CPU and memory of the daemon over minutes, beside a real vLLM"),
    "store": ("bench.store", "a year of history: its size, how fast it answers, what its writer bears"),
    "alerts": ("bench.alerts", "thousands of alerts at once: how late ticks begin, what waits, the memory"),
    "rest": ("bench.rest", "500 requests a second and 200 event streams: the daemon's answers, its ticks' jitter"),
    "connections": ("bench.connections", "short, long, tuned connections through nginx: set-up, memory, how many hold"),
    "react": ("bench.react", "from the first snapshot that shows a breach to the change, 200 breaches"),
    "soak": ("bench.soak", "minutes of faults on a real vLLM: failed requests, recovery times, reversals"),
    "compare": ("bench.compare", "the governor beside fixed settings, vLLM's defaults, the seeds' rule, two limiters"),
    "proof": ("bench.proof", "every comparison of docs/compare.md again; writes its tables from what came out"),
    "tables": ("bench.tables", "no bench: writes the tables of docs/compare.md from the JSON of compare"),
    "demo": ("bench.demo", "the governor on a real vLLM: before, governed, and under an inter-token objective"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code of the named bench; 2 for a name that is not known."""
    names = "\n".join(f"  {name:<12}{said}" for name, (_, said) in BENCHES.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Run one bench from the project's root.",
        epilog=f"names:\n{names}\n\nExit status 0 means that it ran, not that a goal was met.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="python -m bench NAME [--quick] [--json] ...",
    )
    parser.add_argument("name", choices=BENCHES, metavar="NAME", help="which one, see below")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="--quick, --json, what it takes beside")
    chosen = parser.parse_args(arguments)
    run: Callable[[Sequence[str]], int] = importlib.import_module(BENCHES[chosen.name][0]).main
    return run(chosen.rest)


if __name__ == "__main__":
    sys.exit(main())
