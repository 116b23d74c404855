"""The run: a vLLM, and for each style a fresh nginx in front of it, timed and then filled.

Belongs here: what runs beside what. Never: a connection, the texts that nginx is told.
"""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.connections import certificate, nginx_files, setting_up
from bench.connections.certificate import Certificate
from bench.connections.holding import Held, Most, hold, most
from bench.connections.nginx import Nginx, NginxError
from bench.connections.nginx_files import Fit
from bench.connections.setting_up import SetUp
from bench.connections.style import STYLES, Style
from bench.ports import free_port
from bench.server import VllmServer
from bench.server_options import VllmOptions
from bench.setup import debian, places

EXECUTOR = "bench.emulated_gpu.executor.EmulatedGpuExecutor"
"""All of vLLM but the model: two cores have to hold nginx and its clients, too."""
SPARE_FILES = 200
"""What this process has open beside the connections."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is tried. `ceiling`: no more connections than this, whatever would hold."""

    dialogues: int
    hold_s: float
    ceiling: int


async def measure(plan: Plan, say: Callable[[str], None]) -> dict[str, object]:
    """One run. Raises NginxError, ServerError, and what a request raises while set-up is timed."""
    program = debian.program("nginx")
    if program is None:
        raise NginxError(debian.how_to_get("nginx"))
    files = raise_open_files()
    ceiling = min(plan.ceiling, files - SPARE_FILES)
    with tempfile.TemporaryDirectory(prefix="bench-connections-") as name:
        folder = Path(name)
        async with VllmServer(folder / "vllm", _vllm()) as server:
            bench = _Bench(folder, program, certificate.make(folder), f"127.0.0.1:{server.port}")
            result: dict[str, object] = {}
            for style in STYLES:
                result[style.name] = bench.of(style, plan, ceiling, say)
                server.check()
    return {**result, "turns": setting_up.TURNS, "hold_s": plan.hold_s, "ceiling": ceiling, "open_files": files}


def raise_open_files() -> int:
    """This process may open as many files as the system lets it; answers how many. nginx inherits it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _vllm() -> VllmOptions:
    paths = os.pathsep.join([str(places.PLUGIN_OVERLAY), str(places.ROOT)])
    return VllmOptions(executor=EXECUTOR, extra_env={"PYTHONPATH": paths})


class _Bench:
    def __init__(self, folder: Path, program: Path, issued: Certificate, upstream: str) -> None:
        self._folder, self._program, self._issued, self._upstream = folder, program, issued, upstream
        self._started = 0

    def of(self, style: Style, plan: Plan, ceiling: int, say: Callable[[str], None]) -> dict[str, object]:
        trust = self._issued.trusting()
        with self._nginx(style) as nginx:
            base_mb = nginx.memory_mb()
            set_up = setting_up.measure(nginx.port, trust, style, plan.dialogues)
        say(f"{style.name}: set-up {set_up.ms_per_request:.2f} ms a request")

        def attempt(count: int) -> Held:
            with self._nginx(style) as nginx:
                tried = hold(nginx, trust, style, count, plan.hold_s)
            failed = tried.errors.total()
            say(f"{style.name}: {count} at once, " + (f"{failed} errors" if failed else "no error"))
            return tried

        return figures(set_up, most(attempt, ceiling), base_mb)

    def _nginx(self, style: Style) -> Nginx:
        self._started += 1
        fit = Fit(self._folder / f"nginx-{self._started}", free_port(), self._issued, self._upstream)
        texts = nginx_files.shipped(fit) if style.shipped else nginx_files.defaults(fit)
        return Nginx(self._program, nginx_files.write(fit, texts), fit.port)


def figures(set_up: SetUp, found: Most, base_mb: float) -> dict[str, object]:
    """One style's keys. None is what could not be found."""
    return {
        "setup_ms": round(set_up.ms_per_request, 3),
        "mb_per_conn": None if found.held is None else round(found.held.mb_per_conn, 4),
        "max_ok": 0 if found.held is None else found.held.count,
        "setup_ms_per_conn": round(set_up.ms_per_connection, 3),
        "connections": len(set_up.setups_s),
        "resumed": set_up.resumed,
        "requests": set_up.requests,
        "first_error": found.first_error,
        "nginx_mb": round(base_mb, 1),
    }
