"""The OpenAPI document is true: of the table, and of what is really answered."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from controller.api.routes import Access
from tests.api_rig import ApiRig, serving

HOLDS = {"mode": "manual", "alerts": {"receivers": {"ops": {"kind": "webhook", "url": "http://127.0.0.1:9/"}}}}
BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", "/api/v1/knobs"): {"values": {"max_num_seqs": 12}},
    ("PATCH", "/api/v1/policies/{name}"): {"values": {"floor": 9}},
    ("PUT", "/api/v1/mode"): {"mode": "manual"},
    ("POST", "/api/v1/silences"): {"matchers": ['alertname="a"'], "seconds": 60},
    ("POST", "/api/v1/alerts"): {"version": "4", "alerts": []},
}
NAMES = {"/api/v1/knobs": "max_num_seqs", "/api/v1/policies": "batch_resize", "/api/v1/receivers": "ops"}
FIRST = ("PATCH", "PUT", "POST", "GET", "DELETE")
"""What is set is shown, then taken back."""


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiRig]:
    async with serving(tmp_path, HOLDS, read_token=True) as rig:
        yield rig


def parts(path: str, silence: int) -> str:
    """A path with a name in place of each part."""

    def name(found: re.Match[str]) -> str:
        if found[1] == "id":
            return str(silence) if "silences" in path else "1"
        return "plotly.min.js" if found[1] == "path" else next(n for p, n in NAMES.items() if path.startswith(p))

    return re.sub(r"\{(\w+)\}", name, path)


def validator(document: dict[str, Any], schema: dict[str, Any]) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for({**schema, "components": document["components"]}, validate_formats=True)


async def test_every_routes_real_answer_and_its_refusals_are_as_the_document_says(api: ApiRig) -> None:
    document = (await api.ask("GET", "/api/v1/openapi.json")).said
    operations = [
        (method.upper(), path, one) for path, item in document["paths"].items() for method, one in item.items()
    ]
    answered, silence = {}, 0
    for method, path, operation in sorted(operations, key=lambda one: FIRST.index(one[0])):
        query = "?follow=false" if path == "/api/v1/events" else ""
        answer = await api.ask(method, parts(path, silence) + query, json=BODIES.get((method, path)))
        silence = answer.said["id"] if path == "/api/v1/silences" and method == "POST" else silence
        answered[method, path] = answer.status
        said = operation["responses"].get(str(answer.status))
        assert said is not None, (method, path, answer.status, answer.said)
        media = answer.headers["Content-Type"].split(";")[0]
        assert media in said["content"], (method, path, media)
        if "json" in media:
            validator(document, said["content"][media]["schema"]).validate(answer.said)
    refused = {route: status for route, status in answered.items() if status != 200}
    # Nothing listens where the receiver is, nothing is recorded yet, and the mode is the file's.
    assert refused == {
        ("POST", "/api/v1/receivers/{name}/test"): 503,
        ("POST", "/api/v1/replay"): 409,
        ("DELETE", "/api/v1/mode"): 409,
    }


async def test_the_document_has_every_route_of_the_table_with_its_access_and_no_other(api: ApiRig) -> None:
    document = (await api.ask("GET", "/api/v1/openapi.json", None)).said
    shown = {
        (method.upper(), path): {name for one in operation["security"] for name in one}
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    tokens = {Access.OPEN: set(), Access.READ: {"read", "admin"}, Access.ADMIN: {"admin"}}
    assert shown == {
        (route.method, re.sub(r":[^{}]*\}", "}", route.path)): tokens[route.access] for route in api.api.routes
    }
    assert document["openapi"] == "3.1.0"


async def test_where_reads_are_open_the_document_says_that_no_token_is_needed(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        document = (await api.ask("GET", "/api/v1/openapi.json", None)).said
    assert {} in document["paths"]["/api/v1/status"]["get"]["security"]
    assert {} not in document["paths"]["/api/v1/mode"]["put"]["security"]


async def test_docs_rest_names_every_route_and_no_other(api: ApiRig) -> None:
    text = (Path(__file__).parents[3] / "docs" / "rest.md").read_text()
    rows = [re.findall(r"`[^`]*`|[^|]+", line)[0] for line in text.splitlines() if line.startswith("| ")]
    named = set()
    for row in rows:
        method, _, paths = row.strip().partition(" ")
        named |= {(method, path.strip()) for path in paths.split(",")}
    missing, met = [], set()
    for route in api.api.routes:
        path = re.sub(r":[^{}]*\}", "}", route.path).removeprefix("/api/v1")
        short = path.removeprefix("/policies/{name}")
        under = {(route.method, path), (route.method, short)} & named
        met |= under
        if not under:
            missing.append((route.method, path))
    assert missing == []
    assert {one for one in named - met if one[0] in FIRST} == set()
