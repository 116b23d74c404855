"""The run: a real vLLM, a light load, the daemon process, and somebody who scrapes the daemon.

Belongs here: what runs beside what and when counting begins. Never: the arithmetic.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp

from bench.demo.daemon import Daemon, DaemonError
from bench.footprint import process
from bench.footprint.process import Sample
from bench.footprint.summary import summarise
from bench.load import Load, LoadOptions
from bench.ports import free_port
from bench.server import VllmServer
from bench.server_options import VllmOptions

CLIENTS = 4
SCRAPE_EVERY_S = 15.0
"""As docs/prometheus.md has it."""
SCRAPE_HEADERS = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"}
"""What a Prometheus asks for; aiohttp adds gzip, as a Prometheus does."""
LOOK_EVERY_S = 1.0
MET_LIMIT_S = 60.0
SETTLE_S = 10.0
"""After the daemon has met the engine: what a first tick imports and compiles still counts as start-up."""

OnSample = Callable[[float, Sample], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How long is counted after start-up, and at which tick."""

    measure_s: float
    tick_s: float = 1.0


async def measure(plan: Plan, on_sample: OnSample) -> dict[str, object]:
    """One run. Raises ServerError, LoadError, DaemonError or ProcessGone when a part of it does not do."""
    with tempfile.TemporaryDirectory(prefix="bench-footprint-") as name:
        folder = Path(name)
        server = VllmServer(folder / "vllm", VllmOptions())
        async with server, Load(server.url, server.options.served_name, LoadOptions(clients=CLIENTS)) as load:
            port = free_port()
            daemon = Daemon(folder / "daemon", _settings(server, folder, plan.tick_s, port))
            try:
                daemon.start()
                await met(daemon)
                await asyncio.sleep(SETTLE_S)
                async with _Scraper(f"http://127.0.0.1:{port}/metrics") as scraper:
                    samples = await _watch(daemon, plan.measure_s, on_sample)
            finally:
                await daemon.stop()
            return summarise(samples, start_up_cpu_s=samples[0].cpu_s) | {
                "tick_s": plan.tick_s,
                "clients": CLIENTS,
                "requests": load.ok_total,
                "failed_requests": load.failed_total,
                "history_kb": round((folder / "history.db").stat().st_size / 1e3, 1),
                "scrapes": scraper.answered,
                "failed_scrapes": scraper.failed,
                "scrape_kb": round(scraper.size_bytes / 1e3, 1),
            }


def _settings(server: VllmServer, folder: Path, tick_s: float, port: int) -> dict[str, Any]:
    return {
        "mode": "auto",
        "tick_s": tick_s,
        "engine": {"url": server.url, "token_file": str(server.token_file)},
        "store": {"url": str(folder / "history.db")},
        "api": {"port": port},
        "slo": {"time_to_first_token": {"bound_s": 2.0}, "inter_token_latency": {"bound_s": 0.08}},
    }


async def met(daemon: Daemon) -> None:
    """Wait until the daemon has met its engine. Raises DaemonError."""
    until_s = time.monotonic() + MET_LIMIT_S
    while "envelope" not in (daemon.log.read_text(errors="replace") if daemon.log.exists() else ""):
        daemon.check()
        if time.monotonic() > until_s:
            raise DaemonError(f"the governor has not met the engine within {MET_LIMIT_S:.0f} s; see {daemon.log}")
        await asyncio.sleep(0.1)


async def _watch(daemon: Daemon, measure_s: float, on_sample: OnSample) -> list[Sample]:
    samples: list[Sample] = []
    while not samples or samples[-1].at_s - samples[0].at_s < measure_s:
        daemon.check()
        samples.append(process.look(daemon.pid))
        on_sample(samples[-1].at_s - samples[0].at_s, samples[-1])
        await asyncio.sleep(LOOK_EVERY_S)
    return samples


class _Scraper:
    """Scrapes the daemon as a Prometheus does, until the block ends."""

    def __init__(self, url: str) -> None:
        self.answered = 0
        self.failed = 0
        self.size_bytes = 0
        """Of the last answer, unpacked."""
        self._url = url

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._scrape(), name="footprint-scrape")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _scrape(self) -> None:
        timeout = aiohttp.ClientTimeout(total=SCRAPE_EVERY_S)
        async with aiohttp.ClientSession(timeout=timeout, headers=SCRAPE_HEADERS, raise_for_status=True) as session:
            while True:
                try:
                    async with session.get(self._url) as answer:
                        self.size_bytes = len(await answer.read())
                    self.answered += 1
                except (aiohttp.ClientError, TimeoutError, OSError):
                    self.failed += 1
                await asyncio.sleep(SCRAPE_EVERY_S)
