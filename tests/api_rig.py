"""The whole table of routes over a loop, a fake engine and a history in a file, listening on a port of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench.demo.daemon import to_toml
from bench.ports import free_port
from controller.api.server import ApiServer
from controller.api.table import table
from controller.operations.application import Operations
from controller.settings import ApiSettings, Settings
from domain.audit import Action
from store.writes import AddAction
from tests.loop_rig import Rig, rigged, ticks
from tests.writers import written

ADMIN, READ = "token-that-may-change", "token-that-may-read"


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer, read to its end. `said` is its document, None where it is no JSON."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    said: Any


class ApiRig:
    """One daemon's worth, without its process."""

    def __init__(
        self, rig: Rig, operations: Operations, api: ApiServer, session: aiohttp.ClientSession, config: Path
    ) -> None:
        self.rig, self.operations, self.api, self.session, self.config = rig, operations, api, session, config

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.api.port}"

    async def ask(self, method: str, path: str, token: str | None = ADMIN, **request: Any) -> Answered:
        """One call, with the admin token unless another is named; None: without any."""
        headers = dict(request.pop("headers", {}))
        if token is not None:
            headers.setdefault("Authorization", f"Bearer {token}")
        async with self.session.request(method, self.url + path, headers=headers, **request) as answer:
            body = await answer.read()
            said = await answer.json(content_type=None) if "json" in answer.content_type else None
            return Answered(answer.status, answer.headers, body, said)

    async def actions(self) -> list[Action]:
        """The audit, once all is written that was handed over."""
        await written(self.rig.writer)
        return await self.rig.history.audit.actions()


@asynccontextmanager
async def serving(
    folder: Path, loop: Mapping[str, Any] | None = None, *, read_token: bool = False, **api: Any
) -> AsyncIterator[ApiRig]:
    """One that has ticked three times. `loop` are settings of the daemon, `api` those of its listener."""
    (folder / "admin").write_text(ADMIN)
    (folder / "read").write_text(READ)
    plain = {"port": free_port(), "token_file": folder / "admin"}
    plain |= {"read_token_file": folder / "read"} if read_token else {}
    settings = ApiSettings.model_validate(plain | api)
    async with rigged(folder / "history.db") as rig:
        steered = rig.build(**loop or {})
        writer, config = rig.writer, folder / "config.toml"
        engine = {"engine": {"url": rig.engine.url}, "tick_s": 1.0, "guards": {"warm_up_s": 0}}
        config.write_text(to_toml({**engine, **loop} if loop else engine))

        async def apply(_before: Settings, _after: Settings) -> None:
            return

        operations = Operations(steered, rig.history, rig.nvml, lambda one: writer.put(AddAction(one)), config, apply)
        await steered.restore()
        await operations.restore()
        await ticks(rig, 3)
        server = ApiServer(settings, table(operations, steered, settings))
        await server.start()
        try:
            async with aiohttp.ClientSession() as session:
                yield ApiRig(rig, operations, server, session, config)
        finally:
            await operations.close()
            await server.stop()
            await steered.alerting.close()
            await steered.close()
