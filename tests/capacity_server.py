"""An OpenAI-compatible server of a capacity that is known: so many places, each answer takes one for so long.

Belongs here: that server. Never: a model, vLLM's metrics.
"""

from __future__ import annotations

import asyncio
import json
from typing import Self

from aiohttp import web

PIECES = 4


class CapacityServer:
    """`places / service_s` answers a second at most; whoever finds no place waits, first come first served."""

    def __init__(self, places: int, service_s: float) -> None:
        self._free = asyncio.Semaphore(places)
        self._service_s = service_s
        self.asked = 0
        self.url = ""
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/completions", self._complete)
        self._runner = web.AppRunner(app, access_log=None)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _models(self, _request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "planted"}]})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        assert body["model"] == "planted"
        self.asked += 1
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        async with self._free:
            await response.prepare(request)
            for _ in range(PIECES):
                await asyncio.sleep(self._service_s / PIECES)
                event = json.dumps({"choices": [{"text": "word ", "finish_reason": None}]})
                await response.write(f"data: {event}\n\n".encode())
            await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response
