"""Requests/s of a real server with the plugin in use against one without, pair by pair.

Belongs here: the two servers, the order, what the plugin is kept busy with. Never: the load, or the arithmetic.

Two servers rather than one whose plugin is idle or busy: an idle plugin is not stock vLLM. Both are up all the time and
one of them is under load at a time; which comes first alternates, and both halves of a pair get the same prompts. What
differs between two processes of the same program by chance is part of the ratio, so both are started anew for every
round. The plugin is used as the daemon uses it: lease held, and runtime and statistics read once a second, while its
server is under load (and left alone while the other one is, since reading it takes CPU time too).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.load import Load, LoadOptions
from bench.overhead import interval
from bench.server import VllmServer
from bench.server_options import VllmOptions

CLIENTS = 64
LEASE_S = 30
EVERY_S = 1.0
WARM_UP_S = 8.0

OnPair = Callable[[int, "Pair"], None]


@dataclass(frozen=True, slots=True)
class Pair:
    """Requests/s of the two halves, and how often the plugin was read in its half."""

    stock_rps: float
    plugin_rps: float
    readings: int
    failed: int
    stock_cpu_ms: float
    """CPU time per request of all the server's processes."""
    plugin_cpu_ms: float

    @property
    def ratio(self) -> float:
        return self.plugin_rps / self.stock_rps


@dataclass(frozen=True, slots=True)
class Plan:
    """`rounds` times two fresh servers, with `pairs` pairs each, of two halves of `slice_s` seconds."""

    rounds: int
    pairs: int
    slice_s: float


def summary(pairs: list[Pair]) -> dict[str, object]:
    """Plain types only: the three ratios that scripts check, and what they rest on."""
    ratio = interval.of_ratios([pair.ratio for pair in pairs])
    # As the first: above 1 the plugin's server is the cheaper one. Others on the machine disturb it less.
    cpu = interval.of_ratios([pair.stock_cpu_ms / pair.plugin_cpu_ms for pair in pairs])
    return {
        "server_rps_ratio": round(ratio.mean, 4),
        "server_rps_ratio_lower95": None if ratio.low is None else round(ratio.low, 4),
        "server_rps_ratio_upper95": None if ratio.high is None else round(ratio.high, 4),
        "server_pairs": [[round(pair.stock_rps, 1), round(pair.plugin_rps, 1)] for pair in pairs],
        "server_cpu_ratio": round(cpu.mean, 4),
        "server_cpu_ratio_lower95": None if cpu.low is None else round(cpu.low, 4),
        "server_cpu_ratio_upper95": None if cpu.high is None else round(cpu.high, 4),
        "server_readings": sum(pair.readings for pair in pairs),
        "server_failed_requests": sum(pair.failed for pair in pairs),
    }


async def measure(plan: Plan, on_pair: OnPair) -> list[Pair]:
    """All pairs. Raises ServerError or LoadError when a server or a load does not do."""
    pairs: list[Pair] = []
    for number in range(plan.rounds):
        with tempfile.TemporaryDirectory(prefix="bench-overhead-") as folder:
            stock = VllmServer(Path(folder) / "stock", VllmOptions(plugin=False))
            plugin = VllmServer(Path(folder) / "plugin", VllmOptions())
            used = _Use()
            async with stock, plugin:
                for server in (stock, plugin):
                    await _slice(server, WARM_UP_S, seed=1)
                for _ in range(plan.pairs):
                    pairs.append(await _pair(stock, plugin, used, plan.slice_s, len(pairs)))
                    on_pair(number, pairs[-1])
    return pairs


@dataclass(slots=True)
class _Use:
    """How often the plugin was read, and up to where: records are told once, as to the daemon."""

    readings: int = 0
    cursor: str = ""


async def _pair(stock: VllmServer, plugin: VllmServer, used: _Use, slice_s: float, number: int) -> Pair:
    halves: dict[bool, _Half] = {}
    before = used.readings
    for with_plugin in (True, False) if number % 2 else (False, True):
        if with_plugin:
            async with _in_use(plugin, used):
                halves[True] = await _slice(plugin, slice_s, seed=100 + number)
        else:
            halves[False] = await _slice(stock, slice_s, seed=100 + number)
    without, using = halves[False], halves[True]
    readings = used.readings - before
    return Pair(without.rps, using.rps, readings, without.failed + using.failed, without.cpu_ms, using.cpu_ms)


@dataclass(frozen=True, slots=True)
class _Half:
    rps: float
    cpu_ms: float
    failed: int


async def _slice(server: VllmServer, slice_s: float, seed: int) -> _Half:
    """One load, its first tenth not counted."""
    server.check()
    async with Load(server.url, server.options.served_name, LoadOptions(clients=CLIENTS, seed=seed)) as load:
        await asyncio.sleep(slice_s / 10)
        since_s, cpu_before_s = time.monotonic(), _cpu_s(server.pid)
        await asyncio.sleep(slice_s)
        stats, cpu_s = load.stats(since_s), _cpu_s(server.pid) - cpu_before_s
    return _Half(stats.rps, cpu_s * 1e3 / max(1, stats.ok), load.failed_total)


def _cpu_s(group: int) -> float:
    """CPU seconds that the processes of a process group have used."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = file.read_text().rpartition(")")[2].split()  # from the state on: the name may hold anything
            if int(fields[2]) == group:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@contextlib.asynccontextmanager
async def _in_use(server: VllmServer, used: _Use) -> AsyncIterator[None]:
    """Reads the plugin and holds its lease until the block ends."""
    reader = asyncio.create_task(_use(server, used), name="overhead-reader")
    try:
        yield
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        if reader.done() and not reader.cancelled() and (error := reader.exception()) is not None:
            raise error


async def _use(server: VllmServer, used: _Use) -> None:
    headers = {"Authorization": f"Bearer {server.token}"}
    root = f"{server.url}/governor/v1"
    async with aiohttp.ClientSession(headers=headers, raise_for_status=True) as session:
        while True:
            async with session.get(f"{root}/runtime") as answer:
                boot_id = (await answer.json())["boot_id"]
            async with session.post(f"{root}/lease", json={"boot_id": boot_id, "lease_s": LEASE_S}) as answer:
                await answer.read()
            async with session.get(f"{root}/stats", params={"since": used.cursor} if used.cursor else {}) as answer:
                used.cursor = (await answer.json())["cursor"]
            used.readings += 1
            await asyncio.sleep(EVERY_S)
