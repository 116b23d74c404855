"""Refusals and failures as the body of an answer: RFC 9457's problem+json.

Belongs here: which kind is which status, and its document. Never: finding out that something is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from controller.operations.refusal import Kind, Refused

MEDIA = "application/problem+json"
URN = "urn:vllm-governor:"

STATUS = {
    Kind.INVALID: 422,
    Kind.UNKNOWN: 404,
    Kind.CONFLICT: 409,
    Kind.STALE: 412,
    Kind.UNAVAILABLE: 503,
}
TITLES = {
    400: ("malformed", "The request cannot be understood"),
    401: ("unauthorized", "A token is needed"),
    403: ("forbidden", "Not allowed"),
    404: ("unknown", "There is no such thing"),
    405: ("method", "The route does not take this method"),
    408: ("slow", "The request did not arrive in time"),
    409: ("conflict", "Not in this state"),
    412: ("stale", "Changed since it was read"),
    413: ("too_long", "The request is too long"),
    415: ("media_type", "The body is no JSON"),
    422: ("invalid", "Understood, and refused"),
    429: ("too_many", "Too many requests"),
    500: ("failed", "The daemon failed"),
    503: ("unavailable", "Something that is needed does not answer"),
}


class Document(BaseModel):
    """Why a request was refused. `detail` is the whole sentence: `cannot ...: reason; remedy`."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    type: str
    """`urn:vllm-governor:` and the kind."""
    title: str
    status: int
    detail: str
    instance: str
    """The path that was asked for."""
    field: str | None
    """The part of the request that is at fault."""
    reason: str
    remedy: str
    request_id: str
    """The daemon's log and the audit name this request so."""


class Problem(Exception):
    """What ends a request before its handler, or in its place."""

    def __init__(
        self,
        status: int,
        doing: str,
        reason: str,
        remedy: str,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"cannot {doing}: {reason}; {remedy}")
        self.status = status
        self.reason = reason
        self.remedy = remedy
        self.field = field
        self.headers = dict(headers or {})


def of(refused: Refused) -> Problem:
    """What an operation refused."""
    return Problem(STATUS[refused.kind], refused.doing, refused.reason, refused.remedy, refused.field)


def response(problem: Problem, path: str, request_id: str) -> web.Response:
    """The answer."""
    kind, title = TITLES[problem.status]
    document = Document(
        type=URN + kind,
        title=title,
        status=problem.status,
        detail=str(problem),
        instance=path,
        field=problem.field,
        reason=problem.reason,
        remedy=problem.remedy,
        request_id=request_id,
    )
    body = document.model_dump_json().encode()
    return web.Response(body=body, status=problem.status, headers=problem.headers, content_type=MEDIA)
