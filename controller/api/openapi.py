"""GET /api/v1/openapi.json: the route table as OpenAPI 3.1.

Belongs here: from the table's columns to the document. Never: a route, a field that the table does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from aiohttp import web
from pydantic import RootModel
from pydantic.json_schema import models_json_schema

from controller import __version__
from controller.api import idempotency, problem
from controller.api.models.stream import MOST_ID
from controller.api.routes import Access, Call, Route

REF = "#/components/schemas/{model}"
PATH_PART = re.compile(r"\{(\w+)(:[^{}]*)?\}")
Json = dict[str, Any]
EVENTS = "text/event-stream"
EVENT: Json = {
    "type": "object",
    "description": "One event; docs/rest.md has the data of each kind, as one line of JSON.",
    "properties": {"id": {"type": "string"}, "event": {"type": "string"}, "data": {"type": "string"}},
}
Key = tuple[Any, Literal["validation", "serialization"]]


class DocumentOut(RootModel[dict[str, Any]]):
    """OpenAPI 3.1."""


def openapi_route(routes: Sequence[Route], *, reads_need_token: bool) -> Route:
    """The row of the table that shows the others, and itself."""

    @cache  # made when somebody asks: few do, and it leaves some megabytes behind
    def text() -> bytes:
        made = DocumentOut(document([*routes, row], reads_need_token=reads_need_token))
        return made.model_dump_json().encode()

    async def show(_call: Call[None, None]) -> web.Response:
        return web.Response(body=text(), content_type="application/json")

    row = Route("GET", "/api/v1/openapi.json", Access.OPEN, show, "this document", DocumentOut)
    return row


def document(routes: Iterable[Route], *, reads_need_token: bool) -> Json:
    """The whole of it."""
    rows = list(routes)
    names, components = _components(rows)
    paths: dict[str, Json] = {}
    for route in rows:
        security = _security(route.access, reads_need_token)
        operation = _operation(route, names, components) | security
        paths.setdefault(PATH_PART.sub(r"{\1}", route.path), {})[route.method.lower()] = operation
    for model in {route.asked for route in rows if route.asked is not None}:
        components.pop(names[model, "validation"], None)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "vllm-governor",
            "version": __version__,
            "description": "null is not known, never 0. A limit that is switched off is the word `no limit`.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "admin": {"type": "http", "scheme": "bearer", "description": "The token of api.token_file."},
                "read": {"type": "http", "scheme": "bearer", "description": "The token of api.read_token_file."},
            },
        },
    }


def _components(rows: Sequence[Route]) -> tuple[dict[Key, str], Json]:
    """The name of each model, and the schemas by name."""
    wanted: dict[Key, None] = {(problem.Document, "serialization"): None}
    for route in rows:
        for model in (route.asked, route.body):
            if model is not None:
                wanted[model, "validation"] = None
        if route.answer is not None:
            wanted[route.answer, "serialization"] = None
    references, definitions = models_json_schema(list(wanted), ref_template=REF, by_alias=True)
    names = {key: str(reference["$ref"]).rsplit("/", 1)[1] for key, reference in references.items()}
    return names, dict(definitions["$defs"])


def _operation(route: Route, names: Mapping[Key, str], components: Mapping[str, Any]) -> Json:
    operation: Json = {
        "operationId": _identifier(route),
        "summary": route.said,
        "tags": [route.tag or _tag(route.path)],
        "parameters": [*_parameters(route, names, components), *_headers(route)],
        "responses": _responses(route, names),
    }
    if route.body is not None:
        schema = {"$ref": REF.format(model=names[route.body, "validation"])}
        content = {"application/json": {"schema": schema}}
        operation["requestBody"] = {"required": route.body_needed, "content": content}
    return operation


def _parameters(route: Route, names: Mapping[Key, str], components: Mapping[str, Any]) -> Iterator[Json]:
    if route.asked is None:
        return
    schema = components[names[route.asked, "validation"]]
    in_path = {found.group(1) for found in PATH_PART.finditer(route.path)}
    for name, field in schema["properties"].items():
        where = "path" if name in in_path else "query"
        shown = {key: value for key, value in field.items() if key not in ("title", "description", "default")}
        parameter: Json = {"name": name, "in": where, "required": where == "path", "schema": _without_null(shown)}
        if (default := field.get("default")) not in (None, []):
            parameter["schema"]["default"] = default
        if "description" in field:
            parameter["description"] = field["description"]
        yield parameter


def _without_null(schema: Json) -> Json:
    """In a query what is not known is left out."""
    branches = [one for one in schema.get("anyOf", []) if one != {"type": "null"}]
    if "anyOf" not in schema:
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**rest, **branches[0]} if len(branches) == 1 else {**rest, "anyOf": branches}


def _headers(route: Route) -> Iterator[Json]:
    if route.changes:
        said = "A change that is sent again with the same key is made once."
        schema = {"type": "string", "pattern": idempotency.KEY, "examples": ["7c9e6679-7425-40de-944b-e07fc1f90ae7"]}
        yield _header(idempotency.HEADER, schema, said)
    if route.versioned:
        name = "If-Match" if route.changes else "If-None-Match"
        said = "Only if this is still the version." if route.changes else "Answers 304 if this is still the version."
        yield _header(name, {"type": "string", "examples": ['"5f0c2a91"']}, said)
    if EVENTS in route.media:
        yield _header("Last-Event-ID", {"type": "string", "maxLength": MOST_ID}, "Go on after this one.")


def _header(name: str, schema: Json, said: str) -> Json:
    return {"name": name, "in": "header", "required": False, "schema": schema, "description": said}


def _responses(route: Route, names: Mapping[Key, str]) -> Json:
    headers: Json = {"X-Request-Id": {"schema": {"type": "string"}}}
    if route.versioned:
        headers["ETag"] = {"schema": {"type": "string"}, "required": True}
    found: Json = {"200": {"description": route.said, "headers": headers, "content": _content(route, names)}}
    if (route.versioned and not route.changes) or route.cached:
        found["304"] = {"description": "it is still that version"}
    schema = {"$ref": REF.format(model=names[problem.Document, "serialization"])}
    for status in sorted(_refusals(route)):
        _kind, title = problem.TITLES[status]
        found[str(status)] = {"description": title, "content": {problem.MEDIA: {"schema": schema}}}
    return found


def _content(route: Route, names: Mapping[Key, str]) -> Json:
    if route.answer is not None:
        return {"application/json": {"schema": {"$ref": REF.format(model=names[route.answer, "serialization"])}}}
    return {media: {"schema": EVENT if media == EVENTS else {"type": "string"}} for media in route.media}


def _refusals(route: Route) -> set[int]:
    """What any route of its kind may refuse, and what this one may."""
    found = {429, 500, 400} | {problem.STATUS[kind] for kind in route.problems}
    if route.access is not Access.OPEN:
        found |= {401, 403}
    if route.body is not None:
        found |= {408, 413, 415, 422}
    if route.changes or route.asked is not None:
        found |= {422}
    return found


def _security(access: Access, reads_need_token: bool) -> Json:
    if access is Access.OPEN:
        return {"security": []}
    if access is Access.ADMIN:
        return {"security": [{"admin": []}]}
    named: list[Json] = [{"read": []}, {"admin": []}]
    return {"security": named if reads_need_token else [*named, {}]}


def _identifier(route: Route) -> str:
    """`getKnobsName`."""
    words = re.findall(r"\w+", PATH_PART.sub(r"\1", route.path).removeprefix("/api/v1"))
    return route.method.lower() + "".join(word.title().replace("_", "") for word in words)


def _tag(path: str) -> str:
    parts = [part for part in path.removeprefix("/api/v1").split("/") if part]
    return parts[0] if path.startswith("/api/v1") and parts else "daemon"
