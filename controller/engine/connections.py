"""How the daemon reaches its vLLM: TCP, TLS with an operator's own certificates, or a Unix socket.

Belongs here: building the HTTP sessions from the settings, swapping them when the settings change. Never: a request.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from types import TracebackType

import aiohttp

from controller.settings import EngineSettings
from domain.errors import SettingsError

KEEP_ALIVE_S = 4.0
"""Shorter than uvicorn's 5 s, so that a pooled connection is seldom one that vLLM has just closed."""
SOCKET_URL = "http://localhost"
"""What calls over the plugin's own Unix socket name as host: it serves plain HTTP and looks at the path alone."""


def vllm_session(engine: EngineSettings) -> aiohttp.ClientSession:
    """For what vLLM itself serves, `/metrics` above all. Raises SettingsError when `ca_file` cannot be used.

    Requests name `engine.url`; with `engine.unix_socket` they go there, whatever host it names.
    """
    return _session(engine.unix_socket, engine.ca_file)


def admin_session(engine: EngineSettings) -> aiohttp.ClientSession:
    """For the plugin's routes: its own Unix socket where one is set, else as vLLM itself. Requests name admin_url."""
    if engine.admin_socket is not None:
        return _session(engine.admin_socket, None)
    return vllm_session(engine)


def admin_url(engine: EngineSettings) -> str:
    """What URLs of the plugin's routes begin with."""
    return SOCKET_URL if engine.admin_socket is not None else engine.url


def _session(socket: Path | None, ca_file: Path | None) -> aiohttp.ClientSession:
    trusted = _trusted(ca_file)
    connector: aiohttp.BaseConnector = (
        aiohttp.UnixConnector(str(socket), keepalive_timeout=KEEP_ALIVE_S)
        if socket is not None
        else aiohttp.TCPConnector(keepalive_timeout=KEEP_ALIVE_S, ssl=trusted)
    )
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


def _trusted(ca_file: Path | None) -> ssl.SSLContext | bool:
    """True is aiohttp's word for the system's certificates."""
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"cannot use engine.ca_file = {ca_file}: {error.strerror or error}; it must be readable and hold "
            "certificates in PEM form"
        ) from error


class Connections:
    """The sessions of one engine. Build it inside a running event loop; `close` ends both."""

    def __init__(self, engine: EngineSettings) -> None:
        self._engine = engine
        self._open(engine)

    def _open(self, engine: EngineSettings) -> None:
        vllm = vllm_session(engine)
        self.admin = admin_session(engine)
        self.vllm = vllm

    async def use(self, engine: EngineSettings) -> None:
        """Go over to changed settings. Raises SettingsError, and then the old sessions stay."""
        if _route(engine) != _route(self._engine):
            old = self.vllm, self.admin
            self._open(engine)
            for session in old:
                await session.close()
        self._engine = engine

    async def close(self) -> None:
        await self.vllm.close()
        await self.admin.close()

    async def __aenter__(self) -> Connections:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _route(engine: EngineSettings) -> tuple[object, ...]:
    return engine.unix_socket, engine.admin_socket, engine.ca_file
