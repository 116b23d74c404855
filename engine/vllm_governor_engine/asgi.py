"""The few bits of ASGI the routes need: headers, a body with a limit, a JSON answer.

Here: HTTP as such. Never here: a route. It is ASGI and no framework because vLLM's changes with vLLM, and because the
same application then also runs on a socket of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from . import errors

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_BODY_TIMEOUT_S = 10.0


class Disconnected(Exception):
    """The caller went away before its body was complete: there is nobody to answer."""


def header(scope: Scope, name: bytes) -> list[bytes]:
    """The values of every header of that (lower case) name."""
    return [value for key, value in scope["headers"] if key.lower() == name]


async def read_body(scope: Scope, receive: Receive, limit_bytes: int) -> bytes:
    """The whole body, or `too_large` as soon as that is known."""
    for length in header(scope, b"content-length"):
        if length.isdigit() and (len(length) > 12 or int(length) > limit_bytes):
            raise errors.too_large(limit_bytes)
    try:
        return await asyncio.wait_for(_collect(receive, limit_bytes), _BODY_TIMEOUT_S)
    except asyncio.TimeoutError:
        raise errors.malformed(f"it did not arrive within {_BODY_TIMEOUT_S:g} s") from None


async def _collect(receive: Receive, limit_bytes: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        body += message.get("body", b"")
        if len(body) > limit_bytes:
            raise errors.too_large(limit_bytes)
        if not message.get("more_body", False):
            return bytes(body)


async def send_json(send: Send, status: int, content: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """Answer; ASCII throughout, so that an echoed input can hold nothing that does not encode."""
    body = json.dumps(content, allow_nan=False).encode("ascii")
    all_headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        **headers,
    }
    raw = [(name.encode("ascii"), value.encode("ascii")) for name, value in all_headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
