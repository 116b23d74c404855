"""The sockets: a port, plain or with TLS, and a Unix socket.

Belongs here: opening and closing them, how many connections there may be, why one cannot be opened. Never: requests.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import stat
from collections.abc import Callable, Sized
from pathlib import Path

from controller.settings import ApiSettings
from domain.errors import CannotListen

logger = logging.getLogger(__name__)

BACKLOG = 128
HANDSHAKE_S = 10.0
SOCKET_MODE = 0o660
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 52\r\n\r\ncannot take this call: api.connections are all taken"
)
_CAUSES = {
    errno.EADDRINUSE: "another program, maybe another vllm-governor, listens there; set api.port to a free port",
    errno.EACCES: "that port needs root's rights; set api.port above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address; set api.host to one that it has",
}
Factory = Callable[[], asyncio.Protocol]


class Listening:
    """Opens what the settings name. `factory` makes what serves a connection, `connections` are those there are."""

    def __init__(self, settings: ApiSettings, factory: Factory, connections: Sized) -> None:
        self._settings = settings
        self._factory = factory
        self._connections = connections
        self._servers: list[asyncio.Server] = []
        self._socket: Path | None = None

    async def open(self) -> None:
        """Raises CannotListen."""
        if self._settings.port:
            await self._open_port()
        if self._settings.unix_socket is not None:
            await self._open_socket(self._settings.unix_socket)

    def close(self) -> None:
        """Take no more connections. Idempotent."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        if self._socket is not None:
            self._socket.unlink(missing_ok=True)
            self._socket = None

    async def _open_port(self) -> None:
        host, port = self._settings.host, self._settings.port
        context = _tls(self._settings.cert_file, self._settings.key_file)
        handshake_s = None if context is None else HANDSHAKE_S
        try:
            server = await asyncio.get_running_loop().create_server(
                self._counted, host, port, ssl=context, backlog=BACKLOG, ssl_handshake_timeout=handshake_s
            )
        except OSError as error:
            cause = _CAUSES.get(error.errno or 0, f"{error.strerror or error}; check api.host")
            raise CannotListen(f"cannot listen on {host}:{port}: {cause} (api.port = 0 serves nothing)") from error
        self._servers.append(server)
        scheme = "http" if context is None else "https"
        logger.info("serving: %s://%s:%d/", scheme, f"[{host}]" if ":" in host else host, port)

    async def _open_socket(self, path: Path) -> None:
        _make_way(path)
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            end.bind(str(path))
            os.chmod(path, SOCKET_MODE)  # before it listens: nobody gets in meanwhile
            # Not counted: whoever took all of the port's connections must not lock the operator out.
            server = await asyncio.get_running_loop().create_unix_server(self._factory, sock=end, backlog=BACKLOG)
        except OSError as error:
            end.close()
            raise CannotListen(
                f"cannot listen on the Unix socket {path}: {error.strerror or error}; set api.unix_socket to a path of "
                "at most 107 bytes in a directory that the daemon may write"
            ) from error
        self._servers.append(server)
        self._socket = path
        logger.info("serving: the Unix socket %s", path)

    def _counted(self) -> asyncio.Protocol:
        return self._factory() if len(self._connections) < self._settings.connections else _Full()


class _Full(asyncio.Protocol):
    """Says that there is no room, and hangs up."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.write(FULL)
            transport.close()


def _make_way(path: Path) -> None:
    """Remove the socket of a daemon that is gone. Raises CannotListen where one answers, or something else is there."""
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise CannotListen(
                f"cannot listen on the Unix socket {path}: there is something else; set api.unix_socket to another path"
            )
    except OSError:
        return  # nothing there, or binding says why not
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            os.unlink(path)
            return
        except OSError:
            return
    raise CannotListen(
        f"cannot listen on the Unix socket {path}: another program, maybe another vllm-governor, listens there; set "
        "api.unix_socket to another path"
    )


def _tls(cert_file: Path | None, key_file: Path | None) -> ssl.SSLContext | None:
    """Raises CannotListen."""
    if cert_file is None or key_file is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert_file, key_file)
    except OSError as error:  # ssl.SSLError is one
        why = error.strerror or str(error)
        raise CannotListen(
            f"cannot serve https with {cert_file} and {key_file}: {why}; put api.cert_file and api.key_file right"
        ) from error
    return context
