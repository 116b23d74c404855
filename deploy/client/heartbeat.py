"""Keeping a client's connections to vLLM alive between two questions, each 25 s as the seeds ask.

An example to take from; it needs aiohttp alone. What keeps what alive:

- A TCP keep-alive probe keeps the path alive: firewalls and address translators that forget idle connections, and it
  finds out that the other side is gone. `connector` switches it on. A request that waits long for its first token is
  kept alive by it too.
- nginx and vLLM close an HTTP connection on which no *request* came for a while (180 s and 5 s here), whatever TCP
  does. `keep_alive` asks for /health. A silent client that comes back later than that pays for a new connection.
- While an answer streams no request can be sent. vLLM fills silence with comments when it is started with
  `--sse-keep-alive-interval 25`.
- A websocket (/v1/realtime, for models of speech) has pings of its own: `session.ws_connect(url, heartbeat=25)`.

Try it: `python heartbeat.py https://vllm.example.org` asks for /health each 25 s until Ctrl-C.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable
from typing import Any

import aiohttp

HEARTBEAT_S = 25
"""Source: seed 2, the client's heartbeat."""
IDLE_LIMIT_S = 170
"""How long the client keeps an idle connection: less than nginx's keepalive_timeout of 180 s."""
LOST_AFTER = 3
"""Probes without an answer until the connection counts as lost."""
SOCKET_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, HEARTBEAT_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, HEARTBEAT_S),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, LOST_AFTER),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)
"""For httpx: `httpx.AsyncHTTPTransport(socket_options=SOCKET_OPTIONS)`."""


def connector(**options: Any) -> aiohttp.TCPConnector:
    """For `aiohttp.ClientSession(connector=connector())`; `options` are those of aiohttp.TCPConnector."""
    return aiohttp.TCPConnector(socket_factory=_socket, keepalive_timeout=IDLE_LIMIT_S, **options)


async def keep_alive(
    session: aiohttp.ClientSession,
    url: str,
    every_s: float = HEARTBEAT_S,
    on_beat: Callable[[int | None], None] = lambda status: None,
) -> None:
    """Asks for /health on an idle connection of `session` each `every_s` seconds, until it is cancelled.

    `url` is the server's, without a path. A beat that fails is no error, since the next one or the next question makes
    a new connection; `on_beat` is told its status, None for a beat without an answer.
    """
    patience = aiohttp.ClientTimeout(total=10)
    while True:
        status = None
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with session.get(f"{url}/health", timeout=patience) as answer:
                await answer.read()
                status = answer.status
        on_beat(status)
        await asyncio.sleep(every_s)


def _socket(address: Any) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    for option in SOCKET_OPTIONS:
        made.setsockopt(*option)
    return made


async def _main(url: str) -> None:
    async with aiohttp.ClientSession(connector=connector()) as session:
        await keep_alive(session, url.rstrip("/"), on_beat=lambda status: print(status or "no answer", flush=True))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python heartbeat.py URL")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(sys.argv[1]))
