"""A Prometheus that can be made to misbehave, over real HTTP; tests/e2e asks a real one."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from controller.settings import PrometheusSettings

Row = tuple[float, str]


class FakePrometheus:
    """State is public. Each instant query gets `value` (None: no series) unless its text holds a key of `special`."""

    def __init__(self, port: int | None = None) -> None:
        self.value: str | None = "2.5"
        self.special: dict[str, str | web.Response | None] = {
            "vector(time())": f"{time.time():.3f}",
            "count(count": "1",
        }
        self.past: dict[str, list[list[Row]]] = {}
        """By the query's text, the samples of each series."""
        self.failure: tuple[int, str] | None = None
        """Answer every call with this status and body."""
        self.hang_s = 0.0
        self.queries: list[str] = []
        self.headers: list[dict[str, str]] = []
        app = web.Application()
        app.router.add_get("/api/v1/query", self._query)
        app.router.add_get("/api/v1/query_range", self._range)
        self.server = TestServer(app, port=port)
        self.url = ""

    async def start(self) -> None:
        """From here on `url` holds, after `server.close()` too."""
        await self.server.start_server()
        self.url = str(self.server.make_url("")).rstrip("/")

    def settings(self, **changes: Any) -> PrometheusSettings:
        return PrometheusSettings(**{"url": self.url, "timeout_s": 5.0, **changes})

    async def _query(self, request: web.Request) -> web.Response:
        query = request.query["query"]
        if (failed := await self._note(request, query)) is not None:
            return failed
        value = next((answer for text, answer in self.special.items() if text in query), self.value)
        if isinstance(value, web.Response):
            return value
        rows = [] if value is None else [{"metric": {}, "value": [1754000000.123, value]}]
        return _success("vector", rows)

    async def _range(self, request: web.Request) -> web.Response:
        query = request.query["query"]
        if (failed := await self._note(request, query)) is not None:
            return failed
        return _success(
            "matrix", [{"metric": {"n": str(i)}, "values": v} for i, v in enumerate(self.past.get(query, []))]
        )

    async def _note(self, request: web.Request, query: str) -> web.Response | None:
        self.queries.append(query)
        self.headers.append(dict(request.headers))
        if self.hang_s:
            await asyncio.sleep(self.hang_s)
        if self.failure is None:
            return None
        return web.Response(status=self.failure[0], text=self.failure[1])


def _success(kind: str, rows: list[dict[str, Any]]) -> web.Response:
    return web.json_response({"status": "success", "data": {"resultType": kind, "result": rows}})
