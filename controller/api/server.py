"""The daemon's listener: the routes behind their checks, start, stop.

Belongs here: that. Never: which routes there are (table.py), a request's steps (serving.py), sockets (listening.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from controller.api.access import Gate
from controller.api.limits import Limits
from controller.api.listening import Listening
from controller.api.routes import Route
from controller.api.serving import Serving, around, headers
from controller.settings import ApiSettings

STOP_S = 1.0
"""How long a stop waits for an answer that is being sent."""
IDLE_S = 60.0
"""A connection that asks nothing, or not to the end, for so long is closed."""
MOST_LINE = 16 * 1024
"""Of the path with its query."""


class ApiServer:
    """Serves from the loop's own thread, so a handler is short or awaits."""

    def __init__(self, settings: ApiSettings, routes: Iterable[Route]) -> None:
        self._settings = settings
        self.port = settings.port or None
        """Where it serves; None: on no port."""
        self.routes = tuple(routes)
        serving = Serving(Gate(settings), Limits(settings.requests_per_s))
        app = web.Application(middlewares=[around])
        app.on_response_prepare.append(headers)
        for route in self.routes:
            app.router.add_route(route.method, route.path, serving.behind(route))
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=_quiet(),
            shutdown_timeout=STOP_S,
            keepalive_timeout=IDLE_S,
            max_line_size=MOST_LINE,
        )
        self._listening: Listening | None = None

    async def start(self) -> None:
        """Listen, where the settings say. Raises CannotListen."""
        if self.port is None and self._settings.unix_socket is None:
            return
        await self._runner.setup()
        server: Any = self._runner.server
        self._listening = Listening(self._settings, server, _Connections(server))
        try:
            await self._listening.open()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Take no more connections, let what is being answered end. Idempotent."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        await self._runner.cleanup()


def _quiet() -> logging.Logger:
    """What aiohttp would log is what strangers send that is no HTTP; a fault of ours is logged where it is met."""
    quiet = logging.getLogger(f"{__name__}.http")
    quiet.setLevel(logging.CRITICAL)
    return quiet


class _Connections:
    """Those that are open now."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def __len__(self) -> int:
        return len(self._server.connections)
