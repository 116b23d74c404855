"""From a request to an answer: the same steps for every route.

1. the peer's requests are counted, 2. who asks is found out and may be turned away, 3. path, query and body become
values, 4. the handler is called, a change with a key once, 5. its value becomes the answer, a refusal a problem.

Belongs here: that order, and the headers of every answer. Never: what a route does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from uuid import uuid4

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import BaseModel

from controller.api import conditional, idempotency, problem, reading
from controller.api.access import Gate
from controller.api.idempotency import Remembered
from controller.api.limits import Limits
from controller.api.models.base import as_json
from controller.api.peers import peer_of
from controller.api.problem import Problem
from controller.api.routes import Access, Call, Reply, Route
from controller.operations.audit import Caller
from controller.operations.refusal import Refused
from domain.errors import HistoryUnavailable

logger = logging.getLogger(__name__)

ID: web.RequestKey[str] = web.RequestKey("id", str)
"""The request's: its answer, the log and the audit name it."""
WITHOUT = "see /api/v1/openapi.json for the routes"


class Serving:
    """One for the listener's life."""

    def __init__(self, gate: Gate, limits: Limits) -> None:
        self._gate = gate
        self._limits = limits
        self._remembered = Remembered()

    def behind(self, route: Route) -> Handler:
        """The route's handler as aiohttp calls it."""

        async def answer(request: web.Request) -> web.StreamResponse:
            started_s = time.monotonic()
            peer = peer_of(request)
            who = peer.name
            try:
                self._limits.take(peer.bucket, changes=route.changes)
                who = self._gate.admit(request, peer, route.access)
                response = await self._answer(route, request, Caller(who, request[ID]))
            except Problem as refused:
                response = problem.response(refused, request.rel_url.raw_path, request[ID])
            except Refused as refused:
                response = problem.response(problem.of(refused), request.rel_url.raw_path, request[ID])
            except HistoryUnavailable as error:
                response = problem.response(_without_history(error), request.rel_url.raw_path, request[ID])
            _log(route, request, who, response.status, time.monotonic() - started_s)
            return response

        return answer

    async def _answer(self, route: Route, request: web.Request, who: Caller) -> web.StreamResponse:
        asked = reading.asked(route, request)
        body, raw = await reading.body(route, request)
        call = Call(who, asked, body, request)

        async def do() -> web.StreamResponse:
            return _response(route, request, await route.handler(call))

        if not route.changes:
            return await do()
        told_apart = [request.method, request.path_qs, request.headers.get("If-Match", "")]
        fingerprint = "\n".join(told_apart).encode(errors="surrogateescape") + b"\n" + raw
        return await self._remembered.once(request.headers.get(idempotency.HEADER), fingerprint, do)


def _response(route: Route, request: web.Request, found: BaseModel | Reply | web.StreamResponse) -> web.StreamResponse:
    if isinstance(found, web.StreamResponse):
        return found
    body, etag = (found.body, found.etag) if isinstance(found, Reply) else (found, None)
    headers = {} if etag is None else {"ETag": conditional.quoted(etag)}
    if etag is not None and not route.changes and conditional.unchanged(request.headers.get("If-None-Match"), etag):
        return web.Response(status=304, headers=headers)
    return web.Response(body=as_json(body), headers=headers, content_type="application/json")


def _without_history(error: HistoryUnavailable) -> Problem:
    reason = str(error).removeprefix("cannot ")
    return Problem(503, "answer from the history", reason, "make it answer; control goes on meanwhile")


def _log(route: Route, request: web.Request, who: str, status: int, took_s: float) -> None:
    """Changes and refusals of them are worth a line; no header, query or body is in it."""
    if status >= 500 or (route.access is Access.ADMIN and route.changes):
        level = logging.WARNING if status >= 500 else logging.INFO
        call = f"{route.method} {request.rel_url.raw_path}"
        logger.log(level, "%s: %d in %.0f ms, %s, request %s", call, status, took_s * 1e3, who, request[ID])


@web.middleware
async def around(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every request, one without a route too: its id, and a fault as a problem."""
    request[ID] = uuid4().hex
    try:
        return await handler(request)
    except web.HTTPException as refused:
        return problem.response(_of_http(refused, request), request.rel_url.raw_path, request[ID])
    except (asyncio.CancelledError, ConnectionError):
        raise
    except Exception:
        logger.exception("%s %s failed, request %s", request.method, request.rel_url.raw_path, request[ID])
        fault = Problem(500, "answer", "the daemon failed at it", f"its log has the cause under {request[ID]}")
        return problem.response(fault, request.rel_url.raw_path, request[ID])


def _of_http(refused: web.HTTPException, request: web.Request) -> Problem:
    if isinstance(refused, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(refused.allowed_methods))
        reason = f"{request.rel_url.raw_path} does not take {request.method}"
        return Problem(405, "take this call", reason, f"it takes {allowed}", headers={"Allow": allowed})
    if refused.status == 404:
        return Problem(404, "take this call", f"there is no route {request.rel_url.raw_path}", WITHOUT)
    status = refused.status if refused.status in problem.TITLES else 400
    return Problem(status, "take this call", refused.reason, WITHOUT)


async def headers(request: web.Request, response: web.StreamResponse) -> None:
    """What every answer carries."""
    response.headers.setdefault("X-Request-Id", request.get(ID, ""))
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault("Cache-Control", "no-store")
