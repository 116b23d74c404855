"""From a request to an answer: what is wrong is said in one form, nothing secret is logged, nobody asks too much."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from controller.api import serving as api_serving
from controller.api.limits import MOST_PEERS, Limits
from controller.api.problem import Problem
from controller.api.routes import MOST_BYTES
from tests.api_rig import ADMIN, ApiRig, serving

KNOBS, MODE = "/api/v1/knobs", "/api/v1/mode"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiRig]:
    async with serving(tmp_path) as rig:
        yield rig


REFUSALS: list[tuple[str, str, dict[str, Any], int, str | None, str]] = [
    ("PUT", MODE, {"data": b"{", "headers": {"Content-Type": "application/json"}}, 400, None, "invalid JSON"),
    ("PUT", MODE, {"json": {}}, 400, "mode", "field required"),
    ("PUT", MODE, {"json": {"mode": "fast"}}, 400, "mode", "input should be 'auto', 'observe'"),
    ("PUT", MODE, {"json": {"mode": "auto", "modus": 1}}, 400, "modus", "there is no such key"),
    ("PUT", MODE, {"json": {"mode": "auto", "comment": "a\nb"}}, 400, "comment", "pattern"),
    ("PUT", MODE, {"data": "mode=auto"}, 415, None, "its body is text/plain"),
    ("PUT", MODE, {}, 415, None, "its body is application/octet-stream"),
    ("PATCH", KNOBS, {"json": {"values": {"max_num_seqs": "8"}}}, 400, "values.max_num_seqs", "number"),
    ("PATCH", KNOBS, {"json": {"values": {"max_num_seqs": True}}}, 400, "values.max_num_seqs", "number"),
    ("PATCH", KNOBS, {"json": {"values": {}}}, 400, "values", "at least 1"),
    ("PATCH", KNOBS, {"json": {"values": {"max_num_seqs": 8}, "ttl_s": 1}}, 400, "ttl_s", "60"),
    ("PATCH", KNOBS, {"data": b'{"values": {"max_num_seqs": NaN}}'}, 415, None, "application/octet-stream"),
    ("PATCH", KNOBS, {"json": {"values": {"no_such": 8}}}, 404, "no_such", "no such knob"),
    ("PATCH", KNOBS, {"json": {"values": {"max_num_seqs": 1e6}}}, 422, "max_num_seqs", "64"),
    ("PATCH", "/api/v1/policies/no_such", {"json": {"values": {"a": 1}}}, 404, "name", "no such policy"),
    ("PATCH", "/api/v1/policies/batch_resize", {"json": {"values": {"flor": 1}}}, 422, "flor", "flor"),
    ("PATCH", "/api/v1/policies/batch_resize", {"json": {"values": {"floor": "a\x00"}}}, 422, None, "U+0000"),
    ("GET", "/api/v1/decisions?limit=0", {}, 400, "limit", "greater than or equal to 1"),
    ("GET", "/api/v1/decisions?limit=1_0", {}, 400, "limit", "a whole number"),
    ("GET", "/api/v1/decisions?limit=1&limit=2", {}, 400, "limit", "is given 2 times"),
    ("GET", "/api/v1/decisions?knop=a", {}, 400, "knop", "there is no such key"),
    ("GET", "/api/v1/decisions?changes=yes", {}, 400, "changes", "true or false"),
    ("GET", "/api/v1/decisions?since=yesterday", {}, 400, "since", "a time as"),
    ("GET", "/api/v1/decisions?since=2026-02-31T00:00", {}, 422, "since", "there is no such time"),
    ("GET", "/api/v1/decisions?since=999999d", {}, 422, "since", "there is no such time"),
    ("GET", "/api/v1/decisions?since=1969-02-01T00:00Z", {}, 422, "since", "must be between 1970 and 2999"),
    ("GET", "/api/v1/decisions/123456789", {}, 404, None, "there is none of that number"),
    ("GET", "/api/v1/mode?x=1", {}, 400, "x", "there is no x to ask with"),
    ("GET", "/api/v1/nothing", {}, 404, None, "there is no route /api/v1/nothing"),
    ("POST", "/api/v1/status", {}, 405, None, "does not take POST"),
]


async def test_a_refusal_names_the_field_the_reason_and_the_remedy(api: ApiRig) -> None:
    for method, path, request, status, field, said in REFUSALS:
        answer = await api.ask(method, path, **request)
        assert answer.status == status, (path, request, answer.said)
        assert answer.headers["Content-Type"].startswith("application/problem+json")
        problem = answer.said
        assert (problem["field"], problem["status"], problem["instance"]) == (field, status, path.split("?")[0])
        assert said in problem["reason"], (path, request)
        assert problem["detail"].startswith("cannot ")
        assert problem["detail"].endswith(f": {problem['reason']}; {problem['remedy']}")
        assert problem["request_id"] == answer.headers["X-Request-Id"]


async def test_a_method_that_a_route_does_not_take_names_those_that_it_does(api: ApiRig) -> None:
    answer = await api.ask("DELETE", KNOBS)
    assert answer.headers["Allow"] == "GET, PATCH"


async def test_a_body_that_is_too_long_is_refused_before_it_is_read_to_its_end(api: ApiRig) -> None:
    long = {"mode": "auto", "comment": "x" * MOST_BYTES}
    assert (await api.ask("PUT", MODE, json=long)).status == 413


async def test_a_body_that_does_not_arrive_is_given_up(api: ApiRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.api.reading.BODY_S", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.api.port)
    head = f"PUT {MODE} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {ADMIN}\r\nContent-Length: 9\r\n\r\n"
    writer.write(head.encode())
    assert b" 408 " in await reader.readline()
    writer.close()


async def test_every_answer_carries_an_id_and_is_kept_by_nobody(api: ApiRig) -> None:
    seen = set()
    for path in ("/api/v1/status", "/api/v1/nothing", "/metrics", "/healthz"):
        answer = await api.ask("GET", path)
        seen.add(answer.headers["X-Request-Id"])
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
    assert len(seen) == 4


async def test_the_audit_names_a_change_by_the_id_of_its_answer_and_who_asked(api: ApiRig) -> None:
    answer = await api.ask("PUT", MODE, json={"mode": "observe", "comment": "a look"})
    (action,) = await api.actions()
    assert action.request_id == answer.headers["X-Request-Id"]
    assert (action.action, action.actor, action.result) == ("mode.set", "the admin token from 127.0.0.1", "ok")
    assert action.detail["comment"] == "a look"


async def test_a_refused_change_is_in_the_audit_with_the_reason_and_one_without_a_token_is_not(api: ApiRig) -> None:
    await api.ask("POST", "/api/v1/undo", "wrong")
    refused = await api.ask("POST", "/api/v1/undo")
    assert refused.status == 409
    (action,) = await api.actions()
    assert (action.action, action.result) == ("undo", refused.said["detail"])


async def test_no_token_query_or_body_is_logged(api: ApiRig, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "controller"):
        await api.ask("PUT", MODE, json={"mode": "observe", "comment": "secret-comment"})
        await api.ask("PUT", f"{MODE}?a=secret-query", "secret-token")
        await api.ask("POST", "/api/v1/none%0Asecond-line", "secret-token")
    assert f"PUT {MODE}: 200 in " in caplog.text
    assert f"PUT {MODE}: 401 in " in caplog.text
    for word in (ADMIN, "secret-query", "secret-token", "secret-comment", "\nsecond-line"):
        assert word not in caplog.text


async def test_a_fault_of_the_daemon_is_a_problem_too_and_its_log_has_the_id(
    api: ApiRig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.operations, "status", lambda: 1 / 0)
    answer = await api.ask("GET", "/api/v1/status")
    assert (answer.status, answer.said["type"]) == (500, "urn:vllm-governor:failed")
    assert "ZeroDivisionError" not in answer.body.decode()
    assert "ZeroDivisionError" in caplog.text
    assert answer.headers["X-Request-Id"] in caplog.text


async def test_a_history_that_does_not_answer_is_said_and_what_is_now_is_still_answered(
    api: ApiRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.operations.decisions, "_history", type(api.rig.history)("sqlite+aiosqlite:////nowhere/h"))
    answer = await api.ask("GET", "/api/v1/decisions")
    assert (answer.status, answer.said["type"]) == (503, "urn:vllm-governor:unavailable")
    assert "/nowhere/h" in answer.said["reason"]
    assert (await api.ask("GET", "/api/v1/status")).status == 200


async def test_who_asks_too_much_is_told_when_to_come_again_and_others_are_answered(tmp_path: Path) -> None:
    async with serving(tmp_path, requests_per_s=10, unix_socket=tmp_path / "s") as api:
        statuses = [(await api.ask("GET", "/healthz")).status for _ in range(25)]
        assert statuses[:18] == [200] * 18
        assert statuses[-1] == 429
        refused = await api.ask("GET", "/healthz")
        assert int(refused.headers["Retry-After"]) >= 1
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b" 200 " in await reader.readline()
        writer.close()


def test_a_peer_has_its_share_back_after_a_while_and_a_change_counts_more() -> None:
    now = [0.0]
    limits = Limits(20.0, lambda: now[0])
    for _ in range(2):
        limits.take("a", changes=True)
    with pytest.raises(Problem):
        limits.take("a", changes=False)
    limits.take("b", changes=False)
    now[0] = 0.5
    for _ in range(10):
        limits.take("a", changes=False)
    with pytest.raises(Problem):
        limits.take("a", changes=False)


def test_peers_that_come_once_take_no_memory_for_ever() -> None:
    limits = Limits(1000.0, lambda: 0.0)
    for number in range(MOST_PEERS + 100):
        limits.take(str(number), changes=False)
    assert len(limits._buckets) == MOST_PEERS


async def test_what_is_no_http_costs_no_line_in_the_log(api: ApiRig, caplog: pytest.LogCaptureFixture) -> None:
    for sent in (b"\x16\x03\x01\x00\xa5\x01\r\n\r\n", b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", api.api.port)
        writer.write(sent)
        assert b" 400 " in await reader.readline()
        writer.close()
    assert caplog.text == ""


async def test_numbers_are_written_as_docs_rest_says(api: ApiRig) -> None:
    knobs = (await api.ask("GET", KNOBS)).said["knobs"]
    assert {knob["name"] for knob in knobs} >= {"max_num_seqs"}
    done = (await api.ask("PATCH", KNOBS, json={"values": {"max_num_seqs": 12}})).said
    assert done["decisions"]["max_num_seqs"]["observed"] == 12
    text = (await api.ask("GET", "/api/v1/status")).body.decode()
    assert json.loads(text)["signals"]["gpu_power_w"] is None
    assert not {"Infinity", "NaN"} & set(text.replace(",", " ").replace(":", " ").split())
    assert api_serving.ID is not None
