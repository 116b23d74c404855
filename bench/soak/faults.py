"""Making a fault: to the engine, the daemon, the load or what is between them.

Belongs here: what is done and undone, and when it was. Never: the order of faults, judging what followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import dataclass, field

from bench.demo.daemon import Daemon
from bench.server import VllmServer
from bench.soak.crowd import Crowd
from bench.soak.plan import CHANGES, Fault, Kind
from bench.soak.proxy import Proxy

MEET_LIMIT_S = 30.0
"""A fault of changes waits so much longer for one."""


@dataclass(slots=True)
class Site:
    """What faults are made to. `restarts` are the spans in which the engine was away, monotonic seconds."""

    server: VllmServer
    daemon: Daemon
    proxy: Proxy
    crowd: Crowd
    restarts: list[tuple[float, float]] = field(default_factory=list)
    daemon_is_down: bool = False
    engine_is_down: bool = False

    def check(self) -> None:
        """Raises DaemonError or ServerError when one has ended that no fault has ended."""
        if not self.daemon_is_down:
            self.daemon.check()
        if not self.engine_is_down:
            self.server.check()


async def make(site: Site, fault: Fault) -> None:
    """Make a fault and undo it; returns when it has ended."""
    match fault.kind:
        case Kind.LOAD:
            await site.crowd.become(fault.clients or site.crowd.clients)
        case Kind.ENGINE_RESTART:
            await _restart(site)
        case Kind.DAEMON_KILL:
            await _kill(site, fault.lasts_s)
        case _:
            await spoil(site.proxy, fault)


async def spoil(proxy: Proxy, fault: Fault) -> None:
    """A fault in between, from its beginning to its end."""
    proxy.spoil(fault.kind)
    try:
        await asyncio.sleep(fault.lasts_s)
        if fault.kind in CHANGES:  # a governor that has nothing to change meets no such fault
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(proxy.met.wait(), MEET_LIMIT_S)
    finally:
        proxy.mend()


async def _restart(site: Site) -> None:
    began_s = time.monotonic()
    site.engine_is_down = True
    site.restarts.append((began_s, float("inf")))  # until it is over: what fails now is looked at later
    await site.server.stop()
    await site.server.start()
    site.restarts[-1] = (began_s, time.monotonic())
    site.engine_is_down = False


async def _kill(site: Site, down_s: float) -> None:
    site.daemon_is_down = True
    os.kill(site.daemon.pid, signal.SIGKILL)
    await asyncio.sleep(down_s)
    await site.daemon.stop()  # collects what is left of it
    site.daemon.start()
    site.daemon_is_down = False
