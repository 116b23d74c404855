"""The routes, and the entry point of `vllm.endpoint_plugins` that adds them to vLLM's API server.

Here: the route table, the order of the checks (token, route, size, JSON) and turning an error into an answer.
Never here: what a call does; fanout carries it to the engine cores.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from . import errors, wire
from .asgi import Disconnected, Receive, Scope, Send, header, read_body, send_json
from .auth import require_token
from .fanout import Fanout, Runtime
from .log import get_logger

PREFIX = "/governor/v1"

Handler = Callable[[Fanout, bytes], Awaitable[Runtime]]


async def _get_runtime(fanout: Fanout, body: bytes) -> Runtime:
    return await fanout.runtime()


async def _patch_runtime(fanout: Fanout, body: bytes) -> Runtime:
    return await fanout.patch(wire.parse_patch(body))


async def _post_lease(fanout: Fanout, body: bytes) -> Runtime:
    return await fanout.lease(wire.parse_lease(body))


ROUTES: Mapping[str, Mapping[str, Handler]] = {
    "/runtime": {"GET": _get_runtime, "PATCH": _patch_runtime},
    "/lease": {"POST": _post_lease},
}
"""Handler by path below PREFIX and method. Every route asks for the token."""


class GovernorEndpoint:
    """vLLM's endpoint plugin. vLLM makes one per API process and calls its two methods unguarded: they never raise."""

    name = "governor"
    required_tasks = None

    def __init__(self) -> None:
        self._fanout = Fanout(None)

    def attach_router(self, app: Any) -> None:
        """Mount the routes on vLLM's FastAPI application."""
        try:
            app.mount(PREFIX, self)
        except Exception:
            get_logger().exception("cannot add the governor's routes; vLLM goes on without")

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        """Remember the engine core client; there is none on a server without an engine."""
        self._fanout = Fanout(getattr(engine_client, "engine_core", None))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000})
            return
        status, headers = 200, {}
        try:
            content = await self._answer(scope, receive)
        except Disconnected:
            return
        except errors.GovernorError as error:
            status, content, headers = error.status, {"error": error.as_wire()}, _headers_of(error)
        except Exception as error:  # a mistake of ours, told as one; vLLM goes on
            get_logger().exception("governor request failed")
            failure = errors.unavailable(f"the governor failed ({errors.shown(error)}); see vLLM's log")
            status, content = failure.status, {"error": failure.as_wire()}
        await send_json(send, status, content, headers)

    async def _answer(self, scope: Scope, receive: Receive) -> Runtime:
        require_token(header(scope, b"authorization"))
        # Older Starlette strips a mount's prefix from the path, newer leaves it there.
        path = scope["path"].rpartition(PREFIX)[2]
        methods = ROUTES.get(path)
        if methods is None:
            known = " and ".join(PREFIX + route for route in ROUTES)
            raise errors.GovernorError("not_found", f"there is no {errors.shown(path)} here; there are {known}")
        handler = methods.get(scope["method"])
        if handler is None:
            raise errors.GovernorError("method_not_allowed", f"{path} takes {' and '.join(methods)}")
        return await handler(self._fanout, await read_body(scope, receive, wire.MAX_BODY_BYTES))


def _headers_of(error: errors.GovernorError) -> dict[str, str]:
    return {"www-authenticate": "Bearer"} if error.code == "unauthorized" else {}
