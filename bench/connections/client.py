"""One HTTPS connection whose set-up is timed, and one request on it.

Belongs here: a connection and a request. Never: how many, and what the times come to.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time

from bench.connections.certificate import HOST

TIMEOUT_S = 30.0
COMPLETION = {"model": "tiny", "prompt": [9, 10, 11, 12], "max_tokens": 4, "ignore_eos": True, "stream": True}


class Refused(Exception):
    """An answer came, and it is not the one that was asked for."""


class Connection(http.client.HTTPSConnection):
    """To nginx on this machine. Once closed by either side it stays closed: no request is sent on another unseen."""

    auto_open = 0

    def __init__(self, port: int, context: ssl.SSLContext, resume: ssl.SSLSession | None = None) -> None:
        super().__init__(HOST, port, timeout=TIMEOUT_S, context=context)
        self.setup_s = 0.0
        """From the first packet of TCP to the end of TLS' handshake, as the client sees it."""
        self._trust = context
        self._resume = resume

    def connect(self) -> None:
        """Raises OSError, which ssl.SSLError is too."""
        began_s = time.perf_counter()
        plain = socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.sock = self._trust.wrap_socket(plain, server_hostname=HOST, session=self._resume)
        except BaseException:
            plain.close()
            raise
        self.setup_s = time.perf_counter() - began_s

    @property
    def session(self) -> ssl.SSLSession | None:
        """What a later connection may resume; known once an answer was read (TLS 1.3 sends it then)."""
        return self._tls.session

    @property
    def was_resumed(self) -> bool:
        """Whether the server took the session that was offered."""
        return bool(self._tls.session_reused)

    @property
    def _tls(self) -> ssl.SSLSocket:
        assert isinstance(self.sock, ssl.SSLSocket), "not connected"
        return self.sock


def complete(connection: Connection, *, last: bool) -> None:
    """A streamed completion, whole. Raises Refused, OSError or http.client.HTTPException."""
    headers = {"Content-Type": "application/json", **_closing(last)}
    connection.request("POST", "/v1/completions", json.dumps(COMPLETION), headers)
    if not _answer(connection).rstrip().endswith(b"data: [DONE]"):
        raise Refused("the stream ended early")


def look(connection: Connection, *, last: bool) -> None:
    """The cheapest request that vLLM answers itself. Raises like `complete`."""
    connection.request("GET", "/health", headers=_closing(last))
    _answer(connection)


def _closing(last: bool) -> dict[str, str]:
    return {"Connection": "close"} if last else {}


def _answer(connection: Connection) -> bytes:
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise Refused(f"HTTP {answer.status}")
    return body
