"""The run: vLLM on an emulated GPU, a daemon, a small load that stays and a large one that comes and goes.

Belongs here: what runs beside what, and one breach after the other. Never: the arithmetic (summary.py).
"""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench.demo.daemon import Daemon
from bench.footprint.run import met
from bench.load import Load, LoadOptions
from bench.ports import free_port
from bench.prompts import PromptMix
from bench.react.listener import Listener, calm, cut
from bench.react.summary import Breach, Seen, seen, summarise
from bench.sensors.exposition import with_bound
from bench.server import VllmServer
from bench.server_options import VllmOptions
from bench.setup import places
from controller.history.recording import recorded
from domain.slo import Latency
from store.database import database_url
from store.history import History

EXECUTOR = "bench.emulated_gpu.executor.EmulatedGpuExecutor"
STEP = {"base_ms": 10.0, "per_token_us": 300.0, "per_context_token_ns": 0.0}
BOUND_S = 0.02
"""Two decodes take 10.6 ms, 48 take 24.4 ms."""
CAP = 48
FEW, MORE = 2, 46
MIX = PromptMix(hot_share=1.0, hot_tokens=(8, 16))
"""Prompts so short that a prefill among decodes breaks nothing."""
ANSWER_TOKENS = 16
CALM_LIMIT_S, CALM_TRY_S, CUT_LIMIT_S = 60.0, 5.0, 15.0
TOLD_EVERY = 20
OFF = {"enabled": False}


class ReactError(Exception):
    """The bench cannot go on; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How many breaches, and at which tick of the daemon."""

    breaches: int = 200
    tick_s: float = 0.5


async def measure(plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    """One run. Raises ServerError, LoadError, DaemonError, ReactError or a RecoverableError of the history."""
    with tempfile.TemporaryDirectory(prefix="bench-react-") as name:
        folder, port = Path(name), free_port()
        server = VllmServer(folder / "vllm", _vllm())
        async with server, _load(server, FEW, seed=1):
            token = secrets.token_urlsafe(16)
            (folder / "daemon.token").write_text(token)
            daemon = Daemon(folder / "daemon", _settings(plan, server, folder, port))
            try:
                daemon.start()
                await met(daemon)
                async with Listener(f"http://127.0.0.1:{port}", token) as listener:
                    breaches = await _provoke(plan, server, listener, say)
            except aiohttp.ClientError as error:
                daemon.check()
                raise ReactError(f"the daemon does not answer as it should: {error}") from error
            finally:
                await daemon.stop()
            return summarise(breaches, await _ticks(folder / "history.db"), plan.tick_s)


async def _provoke(plan: Plan, server: VllmServer, listener: Listener, say: Callable[[str], None]) -> list[Breach]:
    breaches: list[Breach] = []
    for number in range(plan.breaches):
        await _settle(listener)
        provoked_s = time.time()
        async with _load(server, MORE, seed=number + 2):
            applied_s = await listener.until(cut, CUT_LIMIT_S)
            breaches.append(Breach(provoked_s, applied_s or time.time(), answered=applied_s is not None))
        if (number + 1) % TOLD_EVERY == 0:
            say(f"{number + 1:5} breaches")
    return breaches


async def _settle(listener: Listener) -> None:
    """The cap of the start is in force and keeps the objective. What still drained may have had it cut once more."""
    until_s = time.monotonic() + CALM_LIMIT_S
    while time.monotonic() < until_s:
        await listener.give_back(CAP)
        if await listener.until(calm(CAP), CALM_TRY_S) is not None:
            return
    raise ReactError(f"cannot provoke a breach: two clients alone did not keep the objective for {CALM_LIMIT_S:g} s")


async def _ticks(history_file: Path) -> list[Seen]:
    history = History(database_url(str(history_file)))
    try:
        await history.open()
        return [seen(frame.at.timestamp(), frame.view) async for _, frame in recorded(history)]
    finally:
        await history.close()


def _load(server: VllmServer, clients: int, seed: int) -> Load:
    options = LoadOptions(clients=clients, max_tokens=ANSWER_TOKENS, seed=seed, mix=MIX)
    return Load(server.url, server.options.served_name, options)


def _vllm() -> VllmOptions:
    return VllmOptions(
        max_num_seqs=CAP,
        executor=EXECUTOR,
        itl_buckets_s=with_bound(Latency.ITL, BOUND_S),
        extra_env={
            "PYTHONPATH": f"{places.PLUGIN_OVERLAY}:{places.ROOT}",
            "EMULATED_GPU": json.dumps({"step": STEP}),
        },
    )


def _settings(plan: Plan, server: VllmServer, folder: Path, port: int) -> dict[str, Any]:
    others = ("token_budget", "load_shed", "cache_ratio", "stability", "emergency_purge")
    return {
        "mode": "auto",
        "tick_s": plan.tick_s,
        "engine": {"url": server.url, "token_file": str(server.token_file)},
        "store": {"url": str(folder / "history.db")},
        "api": {"port": port, "token_file": str(folder / "daemon.token")},
        "slo": {"inter_token_latency": {"bound_s": BOUND_S}},
        "policies": {
            "batch_resize": {
                "algorithm": "rules",
                "effect_delay_s": 0.0,
                "start_from_profile": False,
                "model": {"budget_first_s": 0.0},  # nobody cuts the budget here
            },
            **dict.fromkeys(others, OFF),
        },
        "guards": {"warm_up_s": 0.0, "cooldown_ratio": 0.0},
        "outcomes": OFF,
    }
