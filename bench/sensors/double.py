"""Plays a vLLM with the plugin from what a real one answered once: `python -m bench.sensors.double`.

Belongs here: the answers, and that counters go up from one to the next. Never: a scheduler, a knob that does anything.
It prints its address and serves until its input ends, so that its CPU time is not the daemon's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

DATA = Path(__file__).parent / "data"
RECORDS_KEPT = 8192
_COUNTS_UP = re.compile(r"^(vllm:\S*_(?:total|bucket|count|sum)(?:\{.*\})?) (\S+)$")
_GROWTH = 0.01
"""What a counter gains from one scrape to the next, as share of what the recording says."""


class Metrics:
    """The recorded text with counters that go up in proportion, so that buckets stay cumulative."""

    def __init__(self, text: str) -> None:
        self._lines: list[tuple[str, float | None]] = []
        for line in text.splitlines():
            found = _COUNTS_UP.match(line)
            self._lines.append((found[1], float(found[2])) if found else (line, None))

    def render(self, scrape: int) -> str:
        """The text of the given scrape, counted from 0."""
        factor = 1.0 + _GROWTH * scrape
        made = (name if value is None else f"{name} {_grown(value, factor)}" for name, value in self._lines)
        return "\n".join(made) + "\n"


def _grown(value: float, factor: float) -> float:
    """What counts things stays whole."""
    return float(round(value * factor)) if value.is_integer() else value * factor


class Double:
    """Its routes; the runtime and the statistics are the recorded documents, moved on."""

    def __init__(self, metrics: str, records_per_read: int) -> None:
        self._metrics = Metrics(metrics)
        self._runtime = json.loads((DATA / "runtime.json").read_text(encoding="utf-8"))
        self._stats = json.loads((DATA / "stats.json").read_text(encoding="utf-8"))
        self._records_per_read = records_per_read
        self._scrapes = 0
        self._reads = 0
        self._rows: list[list[Any]] = self._stats["engines"][0]["records"]["rows"]

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/metrics", self._scrape)
        app.router.add_get("/governor/v1/runtime", self._answer_runtime)
        app.router.add_patch("/governor/v1/runtime", self._answer_runtime)
        app.router.add_post("/governor/v1/lease", self._answer_runtime)
        app.router.add_get("/governor/v1/stats", self._answer_stats)
        return app

    async def _scrape(self, _request: web.Request) -> web.Response:
        self._scrapes += 1
        return web.Response(text=self._metrics.render(self._scrapes))

    async def _answer_runtime(self, _request: web.Request) -> web.Response:
        return web.json_response(self._runtime)

    async def _answer_stats(self, _request: web.Request) -> web.Response:
        """As many new records as asked for, whatever the cursor says; every sum a reading further."""
        self._reads += 1
        document = dict(self._stats)
        engine = dict(document["engines"][0])
        boot_id, first = engine["boot_id"], self._reads * self._records_per_read
        now_s = time.time()  # finished_at is the first field
        rows = [[now_s, *self._rows[n % len(self._rows)][1:]] for n in range(self._records_per_read)]
        engine["records"] = engine["records"] | {
            "first": first + 1, "next": first + self._records_per_read, "more": False, "rows": rows,
        }  # fmt: skip
        engine["steps"] = {name: value * (self._reads + 1) for name, value in engine["steps"].items()}
        document |= {"engines": [engine], "cursor": f"{boot_id}:{first + self._records_per_read}"}
        return web.json_response(document)


async def _serve(metrics: str, records_per_read: int) -> None:
    runner = web.AppRunner(Double(metrics, records_per_read).app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.to_thread(sys.stdin.read)  # ends when the process at the other end does, however it does
    await runner.cleanup()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sensors.double")
    parser.add_argument("--metrics", type=Path, required=True, help="what a vLLM's /metrics answered")
    parser.add_argument("--records", type=int, required=True, help="request records in each answer of /stats")
    options = parser.parse_args(arguments)
    asyncio.run(_serve(options.metrics.read_text(encoding="utf-8"), options.records))


if __name__ == "__main__":
    main()
