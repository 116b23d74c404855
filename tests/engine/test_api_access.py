"""Who may call, how often, over which door, and what is written down about it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from fastapi import FastAPI
from fastapi.testclient import TestClient
from vllm_governor_engine import http
from vllm_governor_engine.api import unix_socket
from vllm_governor_engine.api.rate_limit import Limits
from vllm_governor_engine.auth import TOKEN_FILE_VARIABLE
from vllm_governor_engine.log import NAME

from tests.engine.made_up import MadeUpClient

RUNTIME = "/governor/v1/runtime"
FREEZE = "/governor/v1/freeze"
LEASE = "/governor/v1/lease"
AUTH = {"Authorization": "Bearer s3cret"}


class Hand:
    now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def token_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(file))
    return file


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def serve(token_file: Path, clock: Hand) -> Callable[..., Any]:
    def build(cores: int = 1) -> Any:
        app, endpoint = FastAPI(), http.GovernorEndpoint(Limits(clock))
        endpoint.attach_router(app)
        client = SimpleNamespace(engine_core=MadeUpClient(cores))
        asyncio.run(endpoint.init_state(client, app.state, None))
        return TestClient(app, headers=AUTH)

    return build


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What the plugin logs."""
    seen: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.getMessage())

    logger, handler = logging.getLogger(NAME), Keep()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield seen
    logger.removeHandler(handler)
    logger.setLevel(before)


def _code(reply: Any) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


# --- freeze over HTTP ---


@pytest.mark.parametrize("cores", [1, 3])
def test_a_freeze_stops_every_core_and_is_lifted(serve: Any, cores: int) -> None:
    web = serve(cores)
    boot_id = web.get(RUNTIME).json()["boot_id"]
    frozen = web.post(FREEZE, json={"boot_id": boot_id, "frozen": True}).json()
    assert [engine["frozen"] for engine in frozen["engines"]] == [True] * cores
    change = {"boot_id": boot_id, "generation": frozen["generation"], "lease_s": 9, "knobs": {"max_num_seqs": 8}}
    reply = web.patch(RUNTIME, json=change)
    assert _code(reply) == (423, "frozen")
    assert "freeze" in reply.json()["error"]["message"]
    assert web.post(LEASE, json={"boot_id": boot_id, "lease_s": 9}).status_code == 200
    lifted = web.post(FREEZE, json={"boot_id": boot_id, "frozen": False}).json()
    assert [engine["frozen"] for engine in lifted["engines"]] == [False] * cores
    assert web.patch(RUNTIME, json={**change, "generation": lifted["generation"]}).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"frozen": True}, 422, "missing_key"),
        ({"boot_id": "x"}, 422, "missing_key"),
        ({"boot_id": "x", "frozen": 1}, 422, "wrong_type"),
        ({"boot_id": 1, "frozen": True}, 422, "wrong_type"),
        ({"boot_id": "x", "frozen": True, "more": 1}, 422, "unknown_key"),
        ({"boot_id": "x", "frozen": True}, 412, "stale"),
    ],
)
def test_a_freeze_that_is_not_meant_for_this_engine_does_nothing(serve: Any, body: Any, status: int, code: str) -> None:
    web = serve(2)
    assert _code(web.post(FREEZE, json=body)) == (status, code)
    assert not any(engine["frozen"] for engine in web.get(RUNTIME).json()["engines"])


# --- how often ---


def test_more_calls_than_a_burst_are_told_to_wait(serve: Any, clock: Hand) -> None:
    web = serve()
    codes = [web.get(RUNTIME).status_code for _ in range(103)]
    assert codes == [200] * 100 + [429] * 3
    reply = web.get(RUNTIME)
    assert _code(reply) == (429, "too_many_requests")
    assert reply.headers["retry-after"] == "1"
    clock.now += 0.1
    assert [web.get(RUNTIME).status_code for _ in range(6)] == [200] * 5 + [429]


def test_a_flood_of_wrong_tokens_is_limited_harder_and_keeps_nobody_out(serve: Any, clock: Hand) -> None:
    web = serve()
    wrong = {"Authorization": "Bearer wrong"}
    codes = [web.get(RUNTIME, headers=wrong).status_code for _ in range(200)]
    assert codes == [401] * 20 + [429] * 180
    assert web.get(RUNTIME).status_code == 200
    clock.now += 1
    assert [web.get(RUNTIME, headers=wrong).status_code for _ in range(3)] == [401, 401, 429]


# --- what is written down ---


def test_each_change_leaves_one_line_with_the_caller_and_never_the_token(serve: Any, lines: list[str]) -> None:
    web = serve()
    boot_id = web.get(RUNTIME).json()["boot_id"]
    good = {"boot_id": boot_id, "generation": 0, "lease_s": 9, "knobs": {"max_num_seqs": 8}}
    web.patch(RUNTIME, json=good)
    web.patch(RUNTIME, json={**good, "knobs": {"s3cret": 1}, "generation": 1})
    web.post(LEASE, json={"boot_id": boot_id, "lease_s": 9})
    web.post(LEASE, json={"boot_id": boot_id, "lease_s": 9, "fallback": {"max_num_seqs": 4}})
    web.post(FREEZE, json={"boot_id": boot_id, "frozen": True})
    web.get(RUNTIME, headers={"Authorization": "Bearer guess"})
    audits = [line for line in lines if "audit" in line]
    assert [line.split("call=")[1].split(" outcome")[0] for line in audits] == [
        "PATCH /runtime",
        "PATCH /runtime",
        "POST /lease",
        "POST /freeze",
    ]
    assert all("caller='testclient:" in line for line in audits)
    assert "outcome=done generation=1 {'knobs': {'max_num_seqs': 8}, 'lease_s': 9}" in audits[0]
    assert "outcome=unknown_knob" in audits[1]
    assert any("refused: unauthorized" in line for line in lines)
    assert not any("s3cret" in line or "guess" in line for line in lines)


def test_a_line_is_one_line_whatever_a_caller_sends(serve: Any, lines: list[str]) -> None:
    web = serve()
    boot_id = web.get(RUNTIME).json()["boot_id"]
    body = {"boot_id": boot_id, "generation": 0, "lease_s": 9, "knobs": {"max_num_seqs": 8, "x\ngovernor audit": 1}}
    web.patch(RUNTIME, json=body)
    assert lines
    assert not any("\n" in line for line in lines)


# --- the Unix socket ---


class Door:
    """The governor on a socket, for the length of a test."""

    def __init__(self, path: Path, group: str | None = None) -> None:
        self.path = path
        self.group = group
        self.endpoint = http.GovernorEndpoint()

    async def __aenter__(self) -> Door:
        client = SimpleNamespace(engine_core=MadeUpClient())
        await self.endpoint.init_state(client, SimpleNamespace(), None)
        self.task = asyncio.create_task(unix_socket.serve(self.endpoint, str(self.path), self.group))
        for _ in range(200):
            if self.path.exists() or self.task.done():
                break
            await asyncio.sleep(0.01)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        reader, writer = await asyncio.open_unix_connection(str(self.path))
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        status, _, text = answer.partition(b"\r\n\r\n")
        return int(status.split()[1]), json.loads(text)


def test_whoever_may_open_the_socket_may_call_without_a_token_and_is_named_by_uid(
    tmp_path: Path, lines: list[str]
) -> None:
    async def go() -> None:
        async with Door(tmp_path / "governor.sock") as door:
            mode = os.stat(door.path)
            assert stat.S_IMODE(mode.st_mode) == 0o660
            assert mode.st_gid == os.getgid()
            status, runtime = await door.ask("GET", RUNTIME)
            assert status == 200
            change = {"boot_id": runtime["boot_id"], "generation": 0, "lease_s": 9, "knobs": {"max_num_seqs": 8}}
            status, changed = await door.ask("PATCH", RUNTIME, change)
            assert (status, changed["engines"][0]["knobs"]["max_num_seqs"]["value"]) == (200, 8)
            assert (await door.ask("GET", "/v1/completions"))[0] == 404
        assert not door.path.exists()

    asyncio.run(go())
    assert any(f"caller=uid {os.getuid()} call=PATCH" in line for line in lines)


def test_the_group_is_the_one_that_is_named(tmp_path: Path) -> None:
    other = next((gid for gid in os.getgroups() if gid != os.getgid()), 4242 if os.getuid() == 0 else None)
    if other is None:
        pytest.skip("this user has one group and may not give files to another")
    listener = unix_socket.listen(str(tmp_path / "s"), str(other))
    assert os.stat(tmp_path / "s").st_gid == other
    listener.close()


def test_a_dead_socket_is_replaced_and_a_living_one_or_a_file_is_not(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    unix_socket.listen(path, None).close()
    living = unix_socket.listen(path, None)
    with pytest.raises(ValueError, match="another process"):
        unix_socket.listen(path, None)
    living.close()
    file = tmp_path / "precious"
    file.write_text("x")
    with pytest.raises(ValueError, match="no socket"):
        unix_socket.listen(str(file), None)
    assert file.read_text() == "x"


def test_a_socket_that_cannot_be_made_costs_the_socket_and_nothing_else(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(unix_socket.PATH_VARIABLE, str(tmp_path / "none" / "s"))

    async def go() -> None:
        app, endpoint = FastAPI(), http.GovernorEndpoint()
        endpoint.attach_router(app)
        await endpoint.init_state(SimpleNamespace(engine_core=MadeUpClient()), app.state, None)
        for _ in range(100):
            if endpoint._process and endpoint._process.follower.problems:
                break
            await asyncio.sleep(0.01)
        assert endpoint._process is not None
        await endpoint._process.follower.sync()
        (engine,) = (await endpoint._fanout.runtime())["engines"]
        assert "cannot serve on the socket" in engine["api_processes"][0]["degraded"][0]

    asyncio.run(go())


def test_no_header_makes_a_network_call_pass_for_one_of_the_socket(serve: Any) -> None:
    web = serve()
    assert web.get(RUNTIME, headers={"Authorization": "", "vllm_governor.uid": "0"}).status_code == 401
