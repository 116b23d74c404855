"""One burst: as many rules as wanted fire at one tick and resolve at another, as many alerts are posted from outside.

The alerting is the daemon's own, with its writer, a history in a file and a webhook over HTTP; only the view is made
up. Belongs here: that, and how late ticks begin meanwhile. Never: the table.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from aiohttp import web

from bench.ports import free_port
from controller import clock
from controller.alerting import Alerting, Ticked
from controller.alerting.wishes import Posted
from controller.collector import Collector
from controller.history.memory import Memory
from controller.metrics.observed import Observed
from controller.settings import Settings
from domain.incident import fingerprint
from domain.view import View
from store.history import History
from store.writer import Writer

TICK_S = 1.0
PROBE_S = 0.01
"""So often it is looked how late a tick would begin."""
QUIET_S, SENDING_S = 3.0, 10.0
POSTED_AT_ONCE = 1000
PATIENCE_S = 600.0
MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Phase:
    """How late the ticks of one part began, and the memory at its end."""

    name: str
    late_ms_p99: float
    late_ms_worst: float
    held_ms_worst: float
    """CPU time of the longest step that nothing else could interrupt: on a machine that does other work as well, what
    is ours of the lateness.
    """
    took_s: float
    memory_mb: float


@dataclass(slots=True)
class Figures:
    """All of it."""

    alerts: int
    phases: list[Phase] = field(default_factory=list)
    incidents: int = 0
    fares: dict[str, dict[str, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(slots=True)
class Ticking:
    """Ticks, and beside them how late one would begin: what a tick's jitter is."""

    alerting: Alerting
    waiting: float = 0.0
    late_ms: list[float] = field(default_factory=list)
    held_ms: float = 0.0

    async def tick(self) -> None:
        """Until it is cancelled."""
        while True:
            now = clock.now()
            ticked = Ticked(now.monotonic_s, now.wall, failed=False, view=View(now.monotonic_s, waiting=self.waiting))
            await self.alerting.tick(ticked)
            await asyncio.sleep(TICK_S)

    async def probe(self) -> None:
        """Likewise."""
        while True:
            due_s = time.monotonic() + PROBE_S
            await asyncio.sleep(PROBE_S)
            self.late_ms.append(1000.0 * (time.monotonic() - due_s))

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Every step of this event loop, while this lasts; the writer's thread has one of its own."""
        run, ours = asyncio.Handle._run, threading.get_ident()

        def timed(handle: asyncio.Handle) -> None:
            began_s = time.thread_time()
            run(handle)
            if threading.get_ident() == ours:
                self.held_ms = max(self.held_ms, 1000.0 * (time.thread_time() - began_s))

        asyncio.Handle._run = timed  # type: ignore[assignment, method-assign]
        yield
        asyncio.Handle._run = run  # type: ignore[method-assign]

    async def phase(self, name: str, until: Callable[[], bool | Awaitable[bool]]) -> Phase:
        """Tick until that holds."""
        self.late_ms.clear()
        self.held_ms = 0.0
        began_s = time.monotonic()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = until()
                if found if isinstance(found, bool) else await found:
                    break
                await asyncio.sleep(PROBE_S)
        late, took_s = self.late_ms[:] or [0.0, 0.0], time.monotonic() - began_s
        memory = psutil.Process().memory_info().rss / MB
        p99 = statistics.quantiles(late, n=100)[98] if len(late) > 1 else late[0]
        return Phase(name, p99, max(late), self.held_ms, took_s, memory)


async def measure(path: Path, alerts: int) -> Figures:
    """Quiet, the burst, its end, alerts from outside."""
    figures = Figures(alerts)
    async with _receiver() as url, _alerting(path, url, alerts) as alerting:
        ticking = Ticking(alerting)
        tasks = [asyncio.create_task(ticking.tick()), asyncio.create_task(ticking.probe())]
        with ticking.timed():
            quiet_s = time.monotonic() + QUIET_S
            figures.phases.append(await ticking.phase("quiet", lambda: time.monotonic() >= quiet_s))
            ticking.waiting = 10.0
            figures.phases.append(await ticking.phase("firing", lambda: _told(alerting, alerts)))
            sending_s = time.monotonic() + SENDING_S
            figures.phases.append(await ticking.phase("sending", lambda: time.monotonic() >= sending_s))
            ticking.waiting = 0.0
            figures.phases.append(await ticking.phase("resolved", lambda: _told(alerting, 0)))
            figures.phases.append(await ticking.phase("from outside", lambda: _post(alerting, alerts)))
        for task in tasks:
            task.cancel()
        figures.fares = {
            receiver: {name: getattr(one, name) for name in ("pending", "delivered", "failed", "superseded")}
            for receiver, one in alerting.receivers().items()
        }
    history = History(f"sqlite+aiosqlite:///{path}")
    figures.incidents = len(await history.alerts.incidents(limit=2 * alerts))
    await history.close()
    return figures


def _told(alerting: Alerting, fire: int) -> bool:
    """So many fire, and all that there is to tell is with the senders."""
    return len(alerting.opened) == fire and not alerting.busy


async def _post(alerting: Alerting, alerts: int) -> bool:
    began = datetime.now(UTC)
    for start in range(0, alerts, POSTED_AT_ONCE):
        for number in range(start, min(alerts, start + POSTED_AT_ONCE)):
            labels = {"alertname": f"Outside{number}", "pod": f"pod-{number}"}
            alerting.take(Posted(fingerprint(labels), began, labels, firing=True), "bench")
            if number % 100 == 99:  # as the route does
                await asyncio.sleep(0)
    return alerting.wishes.firing >= min(alerts, 10_000)


@asynccontextmanager
async def _receiver() -> AsyncIterator[str]:
    async def take(request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    app = web.Application(client_max_size=16 * MB)
    app.router.add_post("/", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield f"http://127.0.0.1:{port}/"
    await runner.cleanup()


@asynccontextmanager
async def _alerting(path: Path, url: str, alerts: int) -> AsyncIterator[Alerting]:
    rule = {"signal": "waiting", "comparison": "above", "threshold": 5, "keep_firing_for_s": 0}
    rules = {f"burst_{number}": rule for number in range(alerts)}
    settings = Settings.model_validate(
        {
            "policies": {"alert_thresholds": {"rules": rules}},
            "alerts": {
                "group_wait_s": 0,
                "group_interval_s": 5,
                "receivers": {"hook": {"kind": "webhook", "url": url, "max_pending": 1000}},
            },
        }
    )
    writer = Writer(f"sqlite+aiosqlite:///{path}", settings.node)
    await writer.start()
    memory, observed = Memory(writer, 1.0), Observed(settings.mode)
    alerting = Alerting(settings, writer, memory, observed)
    await alerting.restore()
    Collector().settle()  # as the daemon does
    try:
        yield alerting
    finally:
        await alerting.close()
        await writer.stop(10.0)
