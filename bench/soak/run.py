"""The soak itself: start everything, make one fault after another, watch, sum up.

Belongs here: the order of things. Never: how a fault is made, what counts as failed or as back.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from bench.demo.daemon import Daemon, DaemonError
from bench.demo.meter import Meter
from bench.ports import free_port
from bench.server import VllmServer
from bench.server_options import VllmOptions
from bench.soak import faults, objective, picture, summary
from bench.soak.accounting import Ledger
from bench.soak.crowd import Crowd
from bench.soak.faults import Site
from bench.soak.look import Look, Lookout
from bench.soak.plan import FIRST_CLIENTS, LEASE_S, SAID, Fault, Planned
from bench.soak.proxy import Proxy
from bench.soak.recovery import Recovery
from bench.soak.screen import Line, Met, Screen
from controller.engine.client import EngineClient
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from store.database import database_url
from store.history import History

TICK_S = 1.0
LOOK_EVERY_S = 1.0
POLL_S = 0.1
START_LIMIT_S = 90.0
PATIENT = {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "60"}
"""vLLM closes a connection that was idle for 5 s. On a machine that stood still so long it would close one on which a
request has arrived that it has not read yet: no work of the governor's, and none of these faults.
"""
RECOVER_LIMIT_S = 120.0
"""A recovery is watched so long; then it counts as not seen, and the soak goes on."""


@dataclass(slots=True)
class Soak:
    """What one run carries along. Seconds of `lines` and `met` count from `started_s`."""

    site: Site
    lookout: Lookout
    ledger: Ledger
    screen: Screen
    print_every_s: float
    started_s: float = field(default_factory=time.monotonic)
    latest: Look | None = None
    state: str = ""
    lines: list[Line] = field(default_factory=list)
    met: list[Met] = field(default_factory=list)
    expirations: dict[str, int] = field(default_factory=dict)
    """Leases that ran out, by boot of the engine."""
    stood_still_s: float = 0.0
    """The longest that this process was kept from running: what a busy machine adds to every time measured here."""

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started_s


async def soak(
    planned: Sequence[Planned], minutes: float, folder: Path, screen: Screen, print_every_s: float
) -> dict[str, Any]:
    """One run. Raises ServerError, LoadError or DaemonError when a part of it ends that no fault has ended."""
    history_file = folder / "history.db"
    ledger = Ledger()
    async with AsyncExitStack() as stack:
        screen.say("Starting vLLM with a tiny model on the CPU (about half a minute) ...")
        server = await stack.enter_async_context(VllmServer(folder / "vllm", VllmOptions(extra_env=PATIENT)))
        proxy = await stack.enter_async_context(Proxy(server.url))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        client = EngineClient(session, server.url, server.token_file, timeout_s=2.0)
        crowd = await stack.enter_async_context(Crowd(server.url, server.options.served_name, ledger.take))
        chosen = await objective.choose(crowd, Meter(session, client))
        screen.say(
            f"Objective: {chosen.percentile:.0f} % of tokens within {chosen.bound_s * 1000:.3g} ms of the one before."
        )
        port = free_port()
        base = _settings(proxy, server, history_file, port) | {"slo": objective.as_settings(chosen)}
        daemon = Daemon(folder, base)
        stack.push_async_callback(daemon.stop)
        daemon.start()
        site = Site(server, daemon, proxy, crowd)
        run = Soak(site, Lookout(session, client, f"http://127.0.0.1:{port}"), ledger, screen, print_every_s)
        await _first_of(_walk(run, planned, minutes), _watch(run), _feel(run))
    return await _sum_up(run, history_file, folder)


def _settings(proxy: Proxy, server: VllmServer, history_file: Path, port: int) -> dict[str, Any]:
    return {
        "mode": "auto",
        "tick_s": TICK_S,
        "engine": {"url": proxy.url, "token_file": str(server.token_file), "lease_s": LEASE_S},
        "store": {"url": str(history_file)},
        "api": {"port": port},
    }


async def _first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Until one is done or raises, which ends all."""
    tasks = [asyncio.create_task(work, name=f"soak-{number}") for number, work in enumerate(works)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def _watch(run: Soak) -> None:
    """Look once a second, for ever."""
    printed_s = -run.print_every_s
    while True:
        run.site.check()
        run.latest = look = await run.lookout.look()
        if look.engine is not None:
            run.expirations[look.engine.boot_id] = look.engine.lease_expirations
        line = Line(
            elapsed_s=look.at_s - run.started_s,
            clients=run.site.crowd.clients,
            requests_per_s=run.ledger.requests_per_s(look.at_s, over_s=3),
            running=look.engine.running if look.engine is not None else None,
            cap=look.values.get(MAX_NUM_SEQS),
            budget=look.values.get(MAX_NUM_BATCHED_TOKENS),
            state=run.state,
        )
        run.lines.append(line)
        if line.elapsed_s - printed_s >= run.print_every_s:
            printed_s = line.elapsed_s
            run.screen.line(line)
        await asyncio.sleep(LOOK_EVERY_S)


async def _feel(run: Soak) -> None:
    """Measure how late a short sleep ends, for ever."""
    while True:
        before_s = time.monotonic()
        await asyncio.sleep(POLL_S)
        run.stood_still_s = max(run.stood_still_s, time.monotonic() - before_s - POLL_S)


async def _walk(run: Soak, planned: Sequence[Planned], minutes: float) -> None:
    run.screen.header()
    run.state = "the daemon takes over"
    before = await _until_back(run, Recovery(time.time(), None, TICK_S), START_LIMIT_S)
    if before is None:
        raise DaemonError(f"the governor did not take over within {START_LIMIT_S:.0f} s; see {run.site.daemon.log}")
    run.started_s, run.lines, run.stood_still_s = time.monotonic(), [], 0.0
    run.screen.event(0.0, f"steered; {FIRST_CLIENTS} clients, {len(planned)} faults in {minutes:g} minutes")
    for one in planned:
        run.state = ""
        await asyncio.sleep(max(0.0, one.at_s - run.elapsed_s))
        await _suffer(run, one.fault)
    run.state = ""
    await asyncio.sleep(max(0.0, 60.0 * minutes - run.elapsed_s))
    await run.site.crowd.leave()


async def _suffer(run: Soak, fault: Fault) -> None:
    """One fault, and the way back from it."""
    before = run.latest
    met = Met(fault.what, fault.kind.value, run.elapsed_s)
    run.met.append(met)
    run.state = fault.what
    run.screen.event(met.began_s, f"{fault.what}: {SAID[fault.kind]}")
    spoiled = run.site.proxy.spoiled
    await faults.make(run.site, fault)
    ended_s, ended_wall_s = time.monotonic(), time.time()
    met.calls = run.site.proxy.spoiled - spoiled
    met.ended_s = ended_s - run.started_s
    back = await _until_back(run, Recovery(ended_wall_s, before, TICK_S), RECOVER_LIMIT_S)
    if back is None:
        run.screen.event(run.elapsed_s, f"not back within {RECOVER_LIMIT_S:.0f} s after {fault.what}: {run.state}")
        return
    met.recovered_s = back.at_s - ended_s
    run.screen.event(run.elapsed_s, f"back {met.recovered_s:.1f} s after the end of {fault.what}")


async def _until_back(run: Soak, recovery: Recovery, limit_s: float) -> Look | None:
    """The first look at which nothing is missing; None after `limit_s`, and `run.state` then says what is."""
    until_s = time.monotonic() + limit_s
    seen: Look | None = None
    while time.monotonic() < until_s:
        look = run.latest
        if look is not None and look is not seen:
            seen = look
            missing = recovery.missing(look)
            if not missing:
                return look
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            run.state = f"{missing[0]}{more}"
        await asyncio.sleep(POLL_S)
    return None


async def _sum_up(run: Soak, history_file: Path, folder: Path) -> dict[str, Any]:
    history = History(database_url(str(history_file)))
    try:
        await history.open()
        decisions = [row.decision for row in await history.decisions.select()]
    finally:
        await history.close()
    offset_s = time.time() - time.monotonic()
    lasted_min = run.lines[-1].elapsed_s / 60.0
    found = summary.summarise(run.ledger, run.site.restarts, decisions, offset_s, lasted_min)
    screen = run.screen
    screen.faults(run.met)
    screen.knobs(found.reversals)
    screen.requests(found.account)
    with contextlib.suppress(OSError):
        picture.draw(run.lines, run.met, folder / "soak.svg")
    screen.say(f"History, logs and picture: {folder}")
    return summary.document(found, [asdict(met) for met in run.met], run.started_s) | {
        "minutes": round(lasted_min, 2),
        "decisions": len(decisions),
        "stood_still_s_max": round(run.stood_still_s, 1),
        "lease_expirations": sum(run.expirations.values()),
    }
