"""A request's path, query and body as values of the route's models; or the refusal.

Belongs here: that. Never: what a route does with them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import ContentEncodingError
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from controller.api.problem import Problem
from controller.api.routes import PREFIX, Route

BODY_S = 10.0
"""So long a body may take to arrive."""
DOING = "understand the request"
READ_API = "see /api/v1/openapi.json for what it takes"


def asked(route: Route, request: web.Request) -> BaseModel | None:
    """The path and the query. Raises Problem."""
    if route.asked is None:
        if route.path.startswith(PREFIX):  # a page and a scrape may carry anything behind their question mark
            _take_none(request)
        return None
    values: dict[str, Any] = dict(request.match_info)
    for name in request.query:
        several = request.query.getall(name)
        if name in values and name in request.match_info:
            raise Problem(400, DOING, f"{name} is in the path and in the query", "leave it out of the query", name)
        if _is_list(route.asked, name):
            values[name] = several
        elif len(several) > 1:
            raise Problem(400, DOING, f"{name} is given {len(several)} times", "give it once", name)
        else:
            values[name] = several[0]
    try:
        return route.asked.model_validate(values)
    except ValidationError as error:
        raise _fault(error) from error


def _take_none(request: web.Request) -> None:
    for name in request.query:
        raise Problem(400, DOING, f"there is no {name} to ask with", READ_API, name)


def _is_list(model: type[BaseModel], name: str) -> bool:
    field = model.model_fields.get(name)
    return field is not None and getattr(field.annotation, "__origin__", None) is list


async def body(route: Route, request: web.Request) -> tuple[BaseModel | None, bytes]:
    """The body, and its bytes. Raises Problem."""
    if route.body is None:
        return None, b""
    raw = await _bytes(request, route.most_bytes)
    if not raw.strip() and not route.body_needed:
        return route.body(), raw
    if request.content_type != "application/json":
        raise Problem(415, DOING, f"its body is {request.content_type}", "send JSON as application/json")
    if b"\\u0000" in raw or b"\0" in raw:
        raise Problem(422, DOING, "its body has the character U+0000, which no database keeps", "leave it out")
    try:
        return route.body.model_validate_json(raw), raw
    except ValidationError as error:
        raise _fault(error) from error


async def _bytes(request: web.Request, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.content.iter_any():
                size += len(part)
                if size > most:
                    raise Problem(413, DOING, f"its body is longer than {most} bytes", "ask for less at once")
                parts.append(part)
    except TimeoutError as error:
        raise Problem(408, DOING, f"its body did not arrive within {BODY_S:.0f} s", "send it at once") from error
    except (ContentEncodingError, web.RequestPayloadError) as error:
        raise Problem(400, DOING, "its body is not as its headers say", "send plain JSON") from error
    return b"".join(parts)


def _fault(error: ValidationError) -> Problem:
    """One sentence for the first fault. A rule that the OpenAPI document cannot tell is 422, all else 400."""
    faults = error.errors(include_url=False, include_input=False)
    by_schema = [fault for fault in faults if fault["type"] != "value_error"]
    fault = (by_schema or faults)[0]
    name = ".".join(str(part) for part in fault["loc"] if not _of_union(part)) or None
    reason = f"{name or 'the body'}: {_said(fault)}"
    return Problem(400 if by_schema else 422, DOING, reason, READ_API, name)


def _of_union(part: int | str) -> bool:
    """pydantic names the branch of a union that it tried as a part of the place."""
    return isinstance(part, str) and ("[" in part or part in ("float", "literal"))


def _said(fault: ErrorDetails) -> str:
    if fault["type"] == "extra_forbidden":
        return "there is no such key"
    text = fault["msg"].removeprefix("Value error, ")
    return text[:1].lower() + text[1:]
