"""The routes, and the entry point of `vllm.endpoint_plugins` that adds them to vLLM's API server.

Here: the route table, the order of the checks (token, rate, route, size, JSON) and turning an error into an answer.
Never here: what a call does; fanout carries it to the engine cores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from . import errors, wire
from .api import caller
from .api.process import ApiProcess
from .api.rate_limit import Bucket, Limits
from .asgi import Disconnected, Receive, Scope, Send, header, read_body, send_json
from .auth import require_token
from .fanout import Fanout, Runtime
from .log import get_logger

PREFIX = "/governor/v1"
FOLLOW_S = 0.5
"""How long a caller waits for this process to put in force what the engine cores have already taken."""

Handler = Callable[[Fanout, bytes], Awaitable[Runtime]]


async def _get_runtime(fanout: Fanout, body: bytes) -> Runtime:
    return await fanout.runtime()


async def _patch_runtime(fanout: Fanout, body: bytes) -> Runtime:
    return await fanout.patch(wire.parse_patch(body))


async def _post_lease(fanout: Fanout, body: bytes) -> Runtime:
    return await fanout.lease(wire.parse_lease(body))


async def _post_freeze(fanout: Fanout, body: bytes) -> Runtime:
    return await fanout.freeze(wire.parse_freeze(body))


async def _post_purge(fanout: Fanout, body: bytes) -> Runtime:
    return await fanout.purge(wire.parse_purge(body))


async def _get_stats(fanout: Fanout, query: bytes) -> Runtime:
    return await fanout.stats(wire.parse_stats(query))


ROUTES: Mapping[str, Mapping[str, Handler]] = {
    "/runtime": {"GET": _get_runtime, "PATCH": _patch_runtime},
    "/lease": {"POST": _post_lease},
    "/freeze": {"POST": _post_freeze},
    "/purge": {"POST": _post_purge},
    "/stats": {"GET": _get_stats},
}
"""Handler by path below PREFIX and method. Every route asks for the token."""


class GovernorEndpoint:
    """vLLM's endpoint plugin. vLLM makes one per API process and calls its two methods unguarded: they never raise."""

    name = "governor"
    required_tasks = None

    def __init__(self, limits: Limits | None = None) -> None:
        self._fanout = Fanout(None)
        self._limits = limits or Limits()
        self._app: Any = None
        self._process: ApiProcess | None = None
        self._following: set[asyncio.Future[None]] = set()

    def attach_router(self, app: Any) -> None:
        """Mount the routes on vLLM's FastAPI application."""
        self._app = app
        try:
            app.mount(PREFIX, self)
        except Exception:
            get_logger().exception("cannot add the governor's routes; vLLM goes on without")

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        """Remember the engine core client, and begin to follow it; there is none on a server without an engine."""
        self._fanout = Fanout(getattr(engine_client, "engine_core", None))
        if engine_client is None:
            return
        try:
            self._process = ApiProcess(
                self, self._app, state, engine_client, lambda report: self._fanout.follow(report)
            )
            self._process.start()
        except Exception:
            get_logger().exception("cannot start the governor's part in this API process; vLLM goes on without")

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
            status, content, headers = failure.status, {"error": failure.as_wire()}, _headers_of(failure)
        await send_json(send, status, content, headers)

    async def _answer(self, scope: Scope, receive: Receive) -> Runtime:
        self._admit(scope)
        # Older Starlette strips a mount's prefix from the path, newer leaves it there.
        path = scope["path"].rpartition(PREFIX)[2]
        methods = ROUTES.get(path)
        if methods is None:
            known = " and ".join(PREFIX + route for route in ROUTES)
            raise errors.GovernorError("not_found", f"there is no {errors.shown(path)} here; there are {known}")
        handler = methods.get(scope["method"])
        if handler is None:
            raise errors.GovernorError("method_not_allowed", f"{path} takes {' and '.join(methods)}")
        body = await read_body(scope, receive, wire.MAX_BODY_BYTES)
        if self._process is not None and not self._process.follower.asked:
            await self._follow()  # so that the knobs that act here are known from the first answer on
        if scope["method"] == "GET":
            return await handler(self._fanout, scope.get("query_string", b""))  # a GET is told by its query
        return await self._audited(scope, f"{scope['method']} {path}", handler, body)

    def _admit(self, scope: Scope) -> None:
        """Let the caller pass, or raise what they are to be told."""
        if not caller.by_socket(scope):
            try:
                require_token(header(scope, b"authorization"))
            except errors.GovernorError as refusal:
                _spend(self._limits.refused)
                get_logger().warning("governor: a call by %s was refused: %s", caller.name(scope), refusal.code)
                raise
        _spend(self._limits.calls)

    async def _audited(self, scope: Scope, call: str, handler: Handler, body: bytes) -> Runtime:
        """Make a call that changes something, have this process follow at once, and write down who it was."""
        told = caller.changes_something(call, body)
        try:
            answer = await handler(self._fanout, body)
        except BaseException as error:  # a caller that gave up, too: the change may have been made
            if told:
                code = error.code if isinstance(error, errors.GovernorError) else f"unknown ({type(error).__name__})"
                caller.audit(scope, call, body, code, None)
            raise
        if told:
            caller.audit(scope, call, body, "done", answer)
            await self._follow()
        return answer

    async def _follow(self) -> None:
        """Have this process follow at once, but not keep the caller waiting on a core that is in a long step."""
        if self._process is not None:
            following = asyncio.ensure_future(self._process.follower.sync())
            self._following.add(following)
            following.add_done_callback(self._following.discard)
            await asyncio.wait({following}, timeout=FOLLOW_S)


def _spend(bucket: Bucket) -> None:
    wait_s = bucket.take()
    if wait_s:
        raise errors.too_many_requests(wait_s)


def _headers_of(error: errors.GovernorError) -> dict[str, str]:
    if error.code == "too_many_requests":
        return {"retry-after": str(error.where["retry_after_s"])}
    if error.status == 503:
        return {"retry-after": "1"}
    return {"www-authenticate": "Bearer"} if error.code == "unauthorized" else {}
