"""The routes, over governors on made-up schedulers: access, every error, several engine cores, faults.

Here: what cannot be provoked in a real server, and the HTTP side of all the rest. Never here: what a knob does to vLLM.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi import FastAPI
from fastapi.testclient import TestClient
from vllm_governor_engine import core, http
from vllm_governor_engine.auth import TOKEN_FILE_VARIABLE
from vllm_governor_engine.fanout import TIMEOUT_VARIABLE, Fanout

from tests.engine.made_up import MadeUpClient, MadeUpScheduler

RUNTIME = "/governor/v1/runtime"
LEASE = "/governor/v1/lease"
AUTH = {"Authorization": "Bearer s3cret"}


class OlderClient(MadeUpClient):
    """Before 0.32: one call per engine."""

    call_utility_all_async = None  # type: ignore[assignment]

    async def _call_utility_async(self, method: str, *args: Any, engine: int) -> str:
        self.ops.append(args[0])
        return core.call(self.cores[engine], *args)


class OldestClient:
    """Only the call to one engine core."""

    def __init__(self) -> None:
        self.core = SimpleNamespace(scheduler=MadeUpScheduler(), vllm_config=None)

    async def call_utility_async(self, method: str, *args: Any) -> str:
        return core.call(self.core, *args)


@pytest.fixture
def token_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(file))
    return file


@pytest.fixture
def serve(token_file: Path) -> Callable[..., Any]:
    """A test client over vLLM's kind of application with the plugin in it."""

    def build(client: Any, timeout_s: float | None = None) -> Any:
        app, endpoint = FastAPI(), http.GovernorEndpoint()
        endpoint.attach_router(app)
        asyncio.run(endpoint.init_state(SimpleNamespace(engine_core=client), app.state, None))
        if timeout_s is not None:
            endpoint._fanout = Fanout(client, timeout_s)
        return TestClient(app, headers=AUTH, raise_server_exceptions=True)

    return build


def _patch(web: Any, **knobs: Any) -> Any:
    now = web.get(RUNTIME).json()
    body = {"boot_id": now["boot_id"], "generation": now["generation"], "lease_s": 15, "knobs": knobs}
    return web.patch(RUNTIME, json=body)


def _code(reply: Any) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


# --- one engine core ---


def test_the_runtime_is_as_documented(serve: Any) -> None:
    reply = serve(MadeUpClient()).get(RUNTIME)
    assert reply.status_code == 200
    runtime = reply.json()
    assert list(runtime) == ["api_version", "plugin_version", "vllm_version", "boot_id", "generation", "engines"]
    (engine,) = runtime["engines"]
    identity, counts = (
        {"engine", "boot_id", "generation", "pid", "cuda_visible_devices"},
        {"running", "waiting", "held"},
    )
    rest = {"frozen", "lease", "degraded", "knobs", "purge", "api_processes"}
    assert set(engine) == identity | counts | rest
    assert (engine["boot_id"], engine["generation"]) == (runtime["boot_id"], runtime["generation"])


def test_a_patch_changes_and_answers_the_runtime_as_it_is_now(serve: Any) -> None:
    client = MadeUpClient()
    web = serve(client)
    reply = _patch(web, max_num_seqs=32)
    assert reply.status_code == 200
    assert reply.json() == {**web.get(RUNTIME).json(), "engines": reply.json()["engines"]}
    assert reply.json()["generation"] == 1
    assert reply.json()["engines"][0]["knobs"]["max_num_seqs"]["value"] == 32
    assert reply.json()["engines"][0]["lease"]["held"]
    assert client.cores[0].scheduler.max_num_active_reqs == 32
    assert client.ops.count("set") == 1


def test_a_lease_is_renewed_and_its_fallback_named(serve: Any) -> None:
    web = serve(MadeUpClient())
    boot_id = web.get(RUNTIME).json()["boot_id"]
    reply = web.post(LEASE, json={"boot_id": boot_id, "lease_s": 1.5, "fallback": {"max_num_seqs": 8}})
    assert reply.status_code == 200
    lease = reply.json()["engines"][0]["lease"]
    assert {"max_num_seqs": 8, "max_num_batched_tokens": 2048}.items() <= lease["fallback"].items()
    assert 1.0 < lease["remaining_s"] <= 1.5


def test_access_is_checked_first_and_the_answer_says_how(
    serve: Any, token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = MadeUpClient()
    web = serve(client)
    for method, path in (("GET", RUNTIME), ("PATCH", RUNTIME), ("POST", LEASE), ("GET", "/governor/v1/nothing")):
        reply = web.request(method, path, headers={"Authorization": "Bearer wrong"}, content=b"x" * 100_000)
        assert _code(reply) == (401, "unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"
    token_file.unlink()
    for method, path in (("GET", RUNTIME), ("PATCH", RUNTIME), ("POST", LEASE)):
        reply = web.request(method, path, content=b"{")
        assert _code(reply) == (403, "closed")
        assert TOKEN_FILE_VARIABLE in reply.json()["error"]["message"]
    monkeypatch.delenv(TOKEN_FILE_VARIABLE)
    assert _code(web.get(RUNTIME)) == (403, "closed")
    assert client.ops == []


def test_every_error_of_the_body_has_its_code_and_says_where(serve: Any) -> None:
    web = serve(MadeUpClient())
    boot_id = web.get(RUNTIME).json()["boot_id"]
    good: dict[str, Any] = {"boot_id": boot_id, "generation": 0, "lease_s": 15, "knobs": {"max_num_seqs": 8}}
    cases: list[tuple[dict[str, Any], int, str, dict[str, Any]]] = [
        ({**good, "knobs": {"nothing": 1}}, 422, "unknown_knob", {"knob": "nothing"}),
        ({**good, "knobs": {"max_num_seqs": 65}}, 422, "out_of_bounds", {"knob": "max_num_seqs", "min": 1, "max": 64}),
        ({**good, "knobs": {"max_num_seqs": 8.0}}, 422, "wrong_type", {"knob": "max_num_seqs"}),
        ({**good, "lease_s": 0}, 422, "out_of_bounds", {"key": "lease_s", "min": 1, "max": 3600}),
        ({**good, "more": 1}, 422, "unknown_key", {"key": "more"}),
        ({key: good[key] for key in good if key != "lease_s"}, 422, "missing_key", {"key": "lease_s"}),
        ({**good, "generation": 1}, 412, "stale", {"current": {"boot_id": boot_id, "generation": 0}}),
        ({**good, "boot_id": "x"}, 412, "stale", {"current": {"boot_id": boot_id, "generation": 0}}),
    ]
    for body, status, code, where in cases:
        reply = web.patch(RUNTIME, json=body)
        assert _code(reply) == (status, code)
        error = reply.json()["error"]
        assert {key: error[key] for key in where} == where
        assert error["message"]
    assert _code(web.post(LEASE, json={"boot_id": "x", "lease_s": 9})) == (412, "stale")
    for body_bytes in (b"", b"{", b"[" * 60_000):
        assert _code(web.patch(RUNTIME, content=body_bytes)) == (400, "malformed")
    assert _code(web.patch(RUNTIME, content=b'{"knobs": {"max_num_seqs": NaN}}')) == (422, "wrong_type")
    assert web.get(RUNTIME).json()["generation"] == 0


def test_a_body_is_measured_whether_its_length_is_told_or_not(serve: Any) -> None:
    web = serve(MadeUpClient())
    limit = 64 * 1024
    assert _code(web.patch(RUNTIME, content=b" " * (limit + 1))) == (413, "too_large")
    assert _code(web.patch(RUNTIME, content=(b" " * 1024 for _ in range(65)))) == (413, "too_large")
    assert _code(web.patch(RUNTIME, content=b" " * limit)) == (400, "malformed")
    assert _code(web.request("GET", RUNTIME, content=b" " * (limit + 1))) == (413, "too_large")


def test_an_unknown_path_or_method_is_told_as_such(serve: Any) -> None:
    web = serve(MadeUpClient())
    assert _code(web.get("/governor/v1/nothing")) == (404, "not_found")
    assert _code(web.get("/governor/v1/runtime/")) == (404, "not_found")
    assert _code(web.post(RUNTIME)) == (405, "method_not_allowed")
    assert _code(web.get(LEASE)) == (405, "method_not_allowed")


def test_the_routes_work_below_a_root_path(token_file: Path) -> None:
    app, endpoint = FastAPI(root_path="/behind/a/proxy"), http.GovernorEndpoint()
    endpoint.attach_router(app)
    endpoint._fanout = Fanout(MadeUpClient())
    web = TestClient(app, headers=AUTH, root_path="/behind/a/proxy")
    assert web.get(RUNTIME).status_code == 200
    assert web.get("/behind/a/proxy" + RUNTIME).status_code == 200


def test_an_input_that_does_not_encode_is_answered_all_the_same(serve: Any) -> None:
    web = serve(MadeUpClient())
    boot_id = web.get(RUNTIME).json()["boot_id"]
    body = json.dumps({"boot_id": boot_id, "generation": 0, "lease_s": 9, "knobs": {"\ud800\n": 1}})
    assert _code(web.patch(RUNTIME, content=body.encode())) == (422, "unknown_knob")
    assert _code(web.patch(RUNTIME, content=b'{"\\ud800": 1}')) == (422, "unknown_key")


# --- faults ---


def test_an_engine_core_that_does_not_answer_in_time_is_503_and_its_late_call_changes_nothing(serve: Any) -> None:
    goes_on, reached = threading.Event(), threading.Event()
    goes_on.set()

    class Stuck(MadeUpClient):
        async def call_utility_all_async(self, method: str, *args: Any) -> list[str]:
            await asyncio.to_thread(goes_on.wait, 30)
            try:
                return await super().call_utility_all_async(method, *args)
            finally:
                reached.set()

    client = Stuck()
    with serve(client, timeout_s=1.0) as web:
        now = web.get(RUNTIME).json()
        goes_on.clear()
        reached.clear()
        body = {"boot_id": now["boot_id"], "generation": 0, "lease_s": 15, "knobs": {"max_num_seqs": 8}}
        assert _code(web.patch(RUNTIME, json=body)) == (503, "engine_unavailable")
        assert not reached.is_set()
        goes_on.set()
        assert reached.wait(30)
        assert web.get(RUNTIME).json()["generation"] == 0
        assert client.cores[0].scheduler.max_num_active_reqs == 64


@pytest.mark.parametrize("answer", [None, "", "{", "{}", "[]", 7, '{"ok": {}}'])
def test_an_answer_that_makes_no_sense_is_503(serve: Any, answer: Any) -> None:
    class Confused(MadeUpClient):
        async def call_utility_all_async(self, method: str, *args: Any) -> list[str]:
            return [answer]

    assert _code(serve(Confused()).get(RUNTIME)) == (503, "engine_unavailable")


def test_a_dead_engine_core_is_503(serve: Any) -> None:
    class Dead(MadeUpClient):
        async def call_utility_all_async(self, method: str, *args: Any) -> list[str]:
            raise RuntimeError("EngineCore encountered an issue\nsee above")

    reply = serve(Dead()).get(RUNTIME)
    assert _code(reply) == (503, "engine_unavailable")
    assert reply.headers["retry-after"] == "1"
    assert "\n" not in reply.json()["error"]["message"]


def test_a_server_without_an_engine_is_503(token_file: Path) -> None:
    app, endpoint = FastAPI(), http.GovernorEndpoint()
    endpoint.attach_router(app)
    web = TestClient(app, headers=AUTH)
    assert _code(web.get(RUNTIME)) == (503, "engine_unavailable")
    asyncio.run(endpoint.init_state(None, app.state, None))
    assert _code(web.get(RUNTIME)) == (503, "engine_unavailable")


def test_attaching_to_something_that_takes_no_routes_does_not_raise() -> None:
    http.GovernorEndpoint().attach_router(object())


def test_a_timeout_in_the_environment_counts_when_it_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, expected in (("2.5", 2.5), ("x", 5.0), ("nan", 5.0), ("-1", 5.0), ("1e9", 5.0)):
        monkeypatch.setenv(TIMEOUT_VARIABLE, text)
        assert Fanout(None)._timeout_s == expected


# --- other vLLMs, several engine cores ---


def test_an_older_client_is_reached_engine_by_engine(serve: Any) -> None:
    client = OlderClient(3)
    web = serve(client)
    assert len(web.get(RUNTIME).json()["engines"]) == 3
    assert _patch(web, max_num_seqs=5).status_code == 200
    assert [engine.scheduler.max_num_active_reqs for engine in client.cores] == [5, 5, 5]


def test_the_oldest_client_reaches_its_one_engine(serve: Any) -> None:
    assert _patch(serve(OldestClient()), max_num_seqs=5).json()["engines"][0]["knobs"]["max_num_seqs"]["value"] == 5


def test_several_engine_cores_are_one_document_in_the_order_of_their_index(serve: Any) -> None:
    client = MadeUpClient(3)
    client.cores.reverse()
    web = serve(client)
    runtime = web.get(RUNTIME).json()
    assert [engine["engine"] for engine in runtime["engines"]] == [0, 1, 2]
    assert runtime["boot_id"] == "+".join(engine["boot_id"] for engine in runtime["engines"])
    changed = _patch(web, max_num_seqs=7).json()
    assert changed["generation"] == 3
    assert [engine["knobs"]["max_num_seqs"]["value"] for engine in changed["engines"]] == [7, 7, 7]
    reply = web.post(LEASE, json={"boot_id": runtime["boot_id"], "lease_s": 9, "fallback": {"max_num_seqs": 3}})
    assert [engine["lease"]["fallback"]["max_num_seqs"] for engine in reply.json()["engines"]] == [3, 3, 3]


def test_a_patch_that_one_engine_core_refuses_changes_none(serve: Any) -> None:
    client = MadeUpClient(3)
    client.cores[1].scheduler.max_num_active_reqs = 16  # this one was started smaller
    web = serve(client)
    reply = _patch(web, max_num_seqs=32)
    assert _code(reply) == (422, "out_of_bounds")
    assert reply.json()["error"]["max"] == 16
    assert [engine.scheduler.max_num_active_reqs for engine in client.cores] == [64, 16, 64]
    assert "set" not in client.ops


def test_a_stale_call_to_several_names_what_is_current_for_all(serve: Any) -> None:
    web = serve(MadeUpClient(2))
    now = web.get(RUNTIME).json()
    body = {"boot_id": now["boot_id"], "generation": 5, "lease_s": 9, "knobs": {}}
    reply = web.patch(RUNTIME, json=body)
    assert _code(reply) == (412, "stale")
    assert reply.json()["error"]["current"] == {"boot_id": now["boot_id"], "generation": 0}
    assert _code(web.post(LEASE, json={"boot_id": "x", "lease_s": 9})) == (412, "stale")


def test_a_change_that_one_of_several_lost_to_somebody_else_is_taken_back_from_the_others(serve: Any) -> None:
    client = MadeUpClient(3)
    web = serve(client)

    def somebody_else(op: str) -> None:
        if op == "set":
            governor = client.cores[2]._vllm_governor
            governor.change(governor.knobs.check({"max_num_seqs": 50}), "somebody else")

    web.get(RUNTIME)
    client.before = somebody_else
    reply = _patch(web, max_num_seqs=7)
    assert _code(reply) == (412, "stale")
    assert [engine.scheduler.max_num_active_reqs for engine in client.cores] == [64, 64, 50]
    assert reply.json()["error"]["current"]["generation"] == web.get(RUNTIME).json()["generation"] == 5


def test_what_is_sent_is_json(serve: Any) -> None:
    reply = serve(MadeUpClient()).get(RUNTIME)
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-store"
    assert json.loads(reply.content)
