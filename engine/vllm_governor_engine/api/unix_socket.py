"""The governor's own Unix socket: the same routes without the network and without a token.

Here: making the socket with the right owner, group and mode, and serving on it in the API process's own loop. Never
here: routes. It is closed unless VLLM_GOVERNOR_SOCKET names a path. Whoever may connect may call: mode 0660, so vLLM's
user and the group, by default vLLM's own, or the one VLLM_GOVERNOR_SOCKET_GROUP names.
"""

from __future__ import annotations

import asyncio
import contextlib
import grp
import importlib
import os
import socket
import stat
import struct
from collections.abc import Mapping
from typing import Any

from vllm_governor_engine.asgi import Receive, Scope, Send

from .caller import UID_KEY

PATH_VARIABLE = "VLLM_GOVERNOR_SOCKET"
GROUP_VARIABLE = "VLLM_GOVERNOR_SOCKET_GROUP"
MODE = 0o660
_BACKLOG = 16


def wanted_path(environ: Mapping[str, str] = os.environ) -> str | None:
    """The path to serve on; None when none is named."""
    return environ.get(PATH_VARIABLE) or None


async def serve(app: Any, path: str, group: str | None) -> None:
    """Serve until cancelled. Raises OSError or ValueError when the socket cannot be made as it is asked for."""
    uvicorn = importlib.import_module("uvicorn")
    listener = listen(path, group)
    made = os.fstat(listener.fileno()), os.stat(path).st_ino
    try:
        config = uvicorn.Config(app, http="h11", access_log=False, lifespan="off", ws="none", log_config=None)
        config.load()
        state = importlib.import_module("uvicorn.server").ServerState()
        loop = asyncio.get_running_loop()

        def protocol() -> Any:
            connection = config.http_protocol_class(config=config, server_state=state, app_state={}, _loop=loop)
            connection.app = _Named(app, connection)
            return connection

        server = await loop.create_unix_server(protocol, sock=listener)
        try:
            await loop.create_future()  # until cancelled
        finally:
            server.close()
            for connection in tuple(state.connections):
                connection.shutdown()
    finally:
        listener.close()
        with contextlib.suppress(OSError):
            if os.stat(path).st_ino == made[1]:  # not somebody else's by now
                os.unlink(path)


def listen(path: str, group: str | None) -> socket.socket:
    """A listening socket at `path` with mode 0660 and the group; one that a dead process left there is replaced."""
    gid = -1 if not group else grp.getgrnam(group).gr_gid if not group.isdigit() else int(group)
    _remove_dead(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # It cannot be connected to before listen(), and by then owner, group and mode are right.
        listener.bind(path)
        os.chmod(path, 0o600)
        os.chown(path, -1, gid)
        os.chmod(path, MODE)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _remove_dead(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ValueError("something that is no socket lies there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise ValueError("another process serves there")


class _Named:
    """The application, told which user is at the other end of one connection."""

    def __init__(self, app: Any, connection: Any) -> None:
        self._app = app
        self._connection = connection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[UID_KEY] = _peer_uid(self._connection.transport)
        await self._app(scope, receive, send)


def _peer_uid(transport: Any) -> str:
    try:
        size = struct.calcsize("3i")
        raw = transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        return str(struct.unpack("3i", raw)[1])
    except Exception:
        return "unknown"
