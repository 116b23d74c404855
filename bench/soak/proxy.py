"""What stands between the daemon and vLLM: it passes everything on, and spoils what it is told to.

Belongs here: passing a request on, the ways to spoil one. Never: when.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from bench.soak.plan import ADMIN, CHANGES, METRICS, Kind

PASSED_ON = ("Authorization", "Content-Type", "Accept")
PASSED_BACK = ("Content-Type", "Retry-After")
UPSTREAM_TIMEOUT_S = 30.0
ADMIN_PATH = "/governor/"
PURGE_PATH = "/purge"
STALE = {"error": {"code": "stale", "message": "the soak says that this is not the current boot_id and generation"}}


class Proxy:
    """`async with Proxy(upstream) as proxy:` serves on a loopback port of its own; `spoil` and `mend` switch faults."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._fault: Kind | None = None
        self._mended = asyncio.Event()
        self.met = asyncio.Event()
        """Set by the first call that meets the fault there is."""
        self.spoiled = 0
        """Calls that a fault met."""

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=UPSTREAM_TIMEOUT_S)
        self._session = aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(keepalive_timeout=4.0))
        application = web.Application(client_max_size=1 << 20)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.mend()
        await self._runner.cleanup()
        await self._session.close()

    @property
    def url(self) -> str:
        """Where it serves, without a trailing slash."""
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    def spoil(self, fault: Kind) -> None:
        """From now on calls of its kind meet `fault`; one at a time."""
        self._mended.clear()
        self.met.clear()
        self._fault = fault

    def mend(self) -> None:
        """Everything passes again; calls that hang are cut off."""
        self._fault = None
        self._mended.set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        fault = self._fault_of(request)
        if fault is None:
            return await self._pass_on(request)
        self.spoiled += 1
        self.met.set()
        match fault:
            case Kind.METRICS_500 | Kind.ADMIN_500 | Kind.CHANGE_500:
                return web.Response(status=500, text="Internal Server Error")
            case Kind.METRICS_EMPTY:
                return web.Response(status=200, body=b"", content_type="text/plain")
            case Kind.CHANGE_STALE:
                return web.json_response(STALE, status=412)
            case Kind.CHANGE_CUT:
                await self._pass_on(request)
            case _:
                await self._mended.wait()
        return _cut(request)

    def _fault_of(self, request: web.Request) -> Kind | None:
        fault = self._fault
        admin = request.path.startswith(ADMIN_PATH)
        meets = (
            (fault in METRICS and request.path.rstrip("/") == "/metrics")
            or (fault in ADMIN and admin)
            or (fault in CHANGES and admin and (request.method == "PATCH" or request.path.endswith(PURGE_PATH)))
        )
        return fault if meets else None

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        try:
            async with self._session.request(
                request.method,
                self._upstream + request.path_qs,
                headers=headers,
                data=await request.read(),
                allow_redirects=False,
            ) as answer:
                body = await answer.read()
                kept = {name: answer.headers[name] for name in PASSED_BACK if name in answer.headers}
                return web.Response(status=answer.status, body=body, headers=kept)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return _cut(request)  # as a server that is not there: no answer of ours must hide that


def _cut(request: web.Request) -> web.Response:
    """Break the connection; nothing of the answer leaves."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
