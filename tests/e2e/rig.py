"""What the end-to-end tests work with: a server, a daemon, a client."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench.demo.daemon import Daemon
from bench.load import LoadOptions
from bench.server import VllmServer
from controller.engine.client import EngineClient
from domain.errors import RecoverableError
from domain.knobs import MAX_NUM_SEQS
from tests.waiting import PATIENCE_S

LOAD = LoadOptions(clients=64, limit_s=280)


@dataclass(frozen=True, slots=True)
class Rig:
    """One test's daemon beside the shared server."""

    server: VllmServer
    daemon: Daemon
    client: EngineClient
    session: aiohttp.ClientSession
    history: Path

    async def cap(self) -> float | None:
        """The admission cap in force; None while the engine does not answer."""
        try:
            knob = (await self.client.runtime()).knob(MAX_NUM_SEQS)
        except RecoverableError:
            return None
        return knob.value if knob else None

    async def reset(self) -> None:
        """All knobs at their start-up values, in force and as fallback, for the next test."""
        runtime = await self.client.runtime()
        runtime = await self.client.renew_lease(runtime.boot_id, 1.0, {})
        await self.client.set_knobs(runtime, runtime.envelope, 1.0)

    async def raw(self, method: str, path: str, **request: Any) -> tuple[int, dict[str, Any]]:
        """One call as anybody could make it; status and body."""
        async with self.session.request(method, self.server.url + path, **request) as answer:
            return answer.status, await answer.json()

    @property
    def authorized(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.server.token}"}

    async def complete(self, prompt_tokens: int = 3) -> int:
        """One short completion; the HTTP status."""
        body = {"model": "tiny", "prompt": [*range(9, 9 + prompt_tokens)], "max_tokens": 4, "ignore_eos": True}
        async with self.session.post(f"{self.server.url}/v1/completions", json=body) as answer:
            await answer.read()
            return answer.status

    def decisions(self, *arguments: str) -> list[dict[str, Any]]:
        """The history as the command line prints it."""
        return [json.loads(line) for line in self.command("decisions", "--json", *arguments).splitlines()]

    def command(self, name: str, *arguments: str) -> str:
        """Run a command of vllm-governor on this test's history."""
        done = subprocess.run(
            [sys.executable, "-m", "controller", name, "--db", str(self.history), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_S,
        )
        return done.stdout

    def log(self) -> str:
        """What the daemon logged so far."""
        return self.daemon.log.read_text() if self.daemon.log.exists() else ""
