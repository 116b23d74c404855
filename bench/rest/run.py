"""The run: a vLLM, the daemon that steers it, one process that listens to its events and one that asks.

Belongs here: what runs beside what and when counting begins. Never: the arithmetic (summary.py).
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.demo.daemon import Daemon
from bench.footprint import process
from bench.footprint.process import Sample
from bench.footprint.run import met
from bench.load import Load, LoadOptions
from bench.ports import free_port
from bench.rest import summary
from bench.rest.child import Child, ChildError
from bench.rest.summary import Looks, Tick
from bench.server import VllmServer
from bench.server_options import VllmOptions
from bench.setup import places

EXECUTOR = "bench.emulated_gpu.executor.EmulatedGpuExecutor"
"""All of vLLM but the model: two cores have to hold the daemon and who asks it, too."""
CLIENTS = 2
WARM_UP_S = 15.0
"""Requests that do not count: code is used for the first time, pools fill."""
SETTLE_S = 5.0
"""After the last request, until the connections of those who asked are gone."""
LONGEST_QUIET_S = 60.0
OPEN_LIMIT_S = 40.0
HEADROOM = 10.0
"""The limit of requests is so many times what is asked: this is about the daemon's speed, not about its limit."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked of the daemon. It is left alone for `fill_s` first: its windows fill, and take memory."""

    measure_s: float
    fill_s: float
    rps: float = 500.0
    streams: int = 200
    tick_s: float = 1.0

    @property
    def quiet_s(self) -> float:
        """So long is looked on without requests, before them and after them."""
        return min(self.measure_s, LONGEST_QUIET_S)


async def measure(plan: Plan, say: Callable[[str], None]) -> dict[str, object]:
    """One run. Raises ServerError, LoadError, DaemonError, ProcessGone or ChildError when a part of it does not do."""
    with tempfile.TemporaryDirectory(prefix="bench-rest-") as name:
        folder, port = Path(name), free_port()
        server = VllmServer(folder / "vllm", _vllm())
        async with server, Load(server.url, server.options.served_name, LoadOptions(clients=CLIENTS)) as load:
            daemon = Daemon(folder / "daemon", _settings(plan, server, folder, port))
            try:
                daemon.start()
                await met(daemon)
                result = await _asked(plan, daemon, f"http://127.0.0.1:{port}/api/v1", say)
            finally:
                await daemon.stop()
            return {**result, "completions": load.ok_total, "failed_completions": load.failed_total}


async def _asked(plan: Plan, daemon: Daemon, url: str, say: Callable[[str], None]) -> dict[str, object]:
    async with Child("bench.rest.listening", (f"{url}/events", plan.streams)) as listening:
        if await listening.line(OPEN_LIMIT_S) != "open":
            found = await listening.result(OPEN_LIMIT_S, stop=True)
            raise ChildError(f"not all of {plan.streams} event streams opened: {found}")
        say(f"{plan.streams} event streams are open; {plan.fill_s:g} s to fill, {plan.quiet_s:g} s to compare with")
        await asyncio.sleep(plan.fill_s)
        before = await _watch(daemon, plan.quiet_s)
        say(f"{plan.rps:g} requests a second; {WARM_UP_S:g} s do not count")
        arguments = (f"{url}/status", plan.rps, WARM_UP_S, plan.measure_s)
        async with Child("bench.rest.asking", arguments) as asking:
            await asking.line(OPEN_LIMIT_S)
            requests_from_s = time.time()
            await asyncio.sleep(WARM_UP_S)
            from_s = time.time()
            during = await _watch(daemon, plan.measure_s)
            until_s = time.time()
            asked = await asking.result(plan.measure_s)
        say(f"{plan.quiet_s:g} s without requests")
        await asyncio.sleep(SETTLE_S)
        after = await _watch(daemon, plan.quiet_s)
        heard = await listening.result(OPEN_LIMIT_S, stop=True)
    return _figures(plan, asked, heard, Looks(before, during, after), (requests_from_s, from_s, until_s))


def _figures(
    plan: Plan,
    asked: dict[str, Any],
    heard: dict[str, Any],
    looks: Looks,
    moments_s: tuple[float, float, float],
) -> dict[str, object]:
    ticks = [Tick(*one) for one in heard["ticks"]]
    return {
        **summary.of_answers(asked["answers"], asked["causes"], plan.measure_s),
        **summary.of_ticks(ticks, plan.tick_s, moments_s),
        **summary.of_process(looks),
        "streams": plan.streams,
        "streams_open_at_end": heard["open"],
        "events_received": heard["events"],
        "ticks_not_received": sum(plan.streams - tick.received for tick in ticks[1:-1]),
        "ticks_in_answers": len(asked["ticks"]),
        "measure_s": plan.measure_s,
        "asked_rps": plan.rps,
        "tick_s": plan.tick_s,
    }


def _vllm() -> VllmOptions:
    paths = os.pathsep.join([str(places.PLUGIN_OVERLAY), str(places.ROOT)])
    return VllmOptions(executor=EXECUTOR, extra_env={"PYTHONPATH": paths})


def _settings(plan: Plan, server: VllmServer, folder: Path, port: int) -> dict[str, Any]:
    return {
        "mode": "auto",
        "tick_s": plan.tick_s,
        "engine": {"url": server.url, "token_file": str(server.token_file)},
        "store": {"url": str(folder / "history.db")},
        "api": {"port": port, "requests_per_s": HEADROOM * plan.rps, "streams": plan.streams, "connections": 1024},
        "slo": {"time_to_first_token": {"bound_s": 2.0}, "inter_token_latency": {"bound_s": 0.08}},
    }


async def _watch(daemon: Daemon, measure_s: float) -> list[Sample]:
    samples: list[Sample] = []
    until_s = time.monotonic() + measure_s
    while time.monotonic() < until_s:
        daemon.check()
        samples.append(process.look(daemon.pid))
        await asyncio.sleep(1.0)
    return samples
