"""What a route is: a path, what answers it, who may ask, and the models of what goes in and out.

Belongs here: the columns of the route table. Never: a handler's body, which routes there are (table.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from aiohttp import web
from pydantic import BaseModel

from controller.operations.audit import Caller
from controller.operations.refusal import Kind

PREFIX = "/api/v1/"
"""Of every route that is this API's."""
MOST_BYTES = 64 * 1024
"""Of a request's body."""

A = TypeVar("A")
B = TypeVar("B")


class Access(StrEnum):
    """Who may call a route. Whoever may open the Unix socket may call all of them."""

    OPEN = "open"
    """Whoever reaches the port: such a route only reads, and shows no secret."""
    READ = "read"
    """Who holds either token; where no read token is configured, everybody on this machine."""
    ADMIN = "admin"
    """Who holds the token of `api.token_file`. Without a configured token nobody."""


@dataclass(frozen=True, slots=True)
class Call(Generic[A, B]):
    """One request after all checks. `asked` is its path and query, `body` its body, each as the route's model."""

    who: Caller
    asked: A
    body: B
    request: web.Request


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with more than a body. `etag` is the version of what is answered, without quotes."""

    body: BaseModel
    etag: str | None = None


Handler = Callable[[Any], Awaitable[BaseModel | Reply | web.StreamResponse]]
"""Takes a Call of the route's models. A StreamResponse is passed on as it is."""


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the table."""

    method: str
    path: str
    access: Access
    handler: Handler
    said: str
    """A line for the OpenAPI document."""
    answer: type[BaseModel] | None = None
    """None: the answer is no JSON, `media` says what it is."""
    asked: type[BaseModel] | None = None
    """Fields that the path names are its parts, the others the query; None: neither takes any."""
    body: type[BaseModel] | None = None
    body_needed: bool = True
    """False: without a body the model's defaults count."""
    problems: tuple[Kind, ...] = ()
    """What the handler may refuse; what every route of its kind may refuse is not said again."""
    versioned: bool = False
    """Answers carry an ETag; a change takes If-Match."""
    cached: bool = False
    """A browser keeps the answer and asks whether it is still the same."""
    most_bytes: int = MOST_BYTES
    media: tuple[str, ...] = field(default=("application/json",))
    tag: str = ""
    """The heading that it stands under."""

    @property
    def changes(self) -> bool:
        """Whether a call may change something."""
        return self.method != "GET"
