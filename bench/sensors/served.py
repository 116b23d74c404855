"""A local HTTP server that answers `/metrics` with what it was given last. Never here: what that is."""

from __future__ import annotations

from typing import Self

from aiohttp import web


class Served:
    """`text` is what the next scrape gets. Loopback alone, on a free port."""

    def __init__(self) -> None:
        self.text = ""
        self.url = ""
        app = web.Application()
        app.router.add_get("/metrics", self._answer)
        self._runner = web.AppRunner(app, access_log=None)

    async def _answer(self, _request: web.Request) -> web.Response:
        return web.Response(text=self.text)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
