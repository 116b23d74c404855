"""The daemon's end of the admin RPC against a real HTTP server: transport, what is sent, what an answer means."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controller.engine.client import EngineClient
from controller.engine.connections import Connections, admin_session
from controller.engine.wire import parse_runtime
from controller.settings import EngineSettings
from domain.errors import BadReading, EngineRefused, EngineUnreachable, SettingsError
from domain.knobs import CONNECTION_CLOSE, LENGTH_GROUPING, MAX_NUM_QUEUED_REQS, NO_LIMIT
from domain.runtime import Support
from tests.fake_engine import FakeEngine


class Recorder:
    """Answers every call with the same document and keeps what was asked."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.calls: list[tuple[str, str, Any, dict[str, str]]] = []

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.calls.append((request.method, request.path, json.loads(body) if body else None, dict(request.headers)))
        return web.json_response(self.document)

    @asynccontextmanager
    async def serve(self, socket: Path | None = None) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.UnixSite(runner, str(socket)) if socket else web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield "" if socket else f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


def document(**knobs: dict[str, Any]) -> dict[str, Any]:
    core = {
        "engine": 0,
        "boot_id": "boot-a",
        "pid": 4711,
        "cuda_visible_devices": "2,3",
        "generation": 3,
        "running": 2,
        "waiting": 1,
        "lease": {
            "held": True,
            "remaining_s": 4,
            "fallback": {n: k["startup"] for n, k in knobs.items()},
            "expirations": 0,
        },
        "degraded": [],
        "knobs": {name: {"support": "native", "reason": None} | knob for name, knob in knobs.items()},
    }
    versions = {"api_version": 1, "plugin_version": "0.1.0", "vllm_version": "0.32.0"}
    return {**versions, "boot_id": "boot-a", "generation": 3, "engines": [core]}


CAP = {"value": 8, "startup": 64, "min": 1, "max": 64}
QUEUE = {"value": None, "startup": None, "min": 0, "max": 1000}
SWITCH = {"value": False, "startup": False, "min": False, "max": True}


# --- what is sent ---


async def test_a_limit_is_released_with_null_and_a_switch_is_true_or_false() -> None:
    engine = Recorder(document(max_num_seqs=CAP))
    async with engine.serve() as url, admin_session(EngineSettings(url=url)) as session:
        client = EngineClient.over(session, EngineSettings(url=url))
        runtime = await client.runtime()
        knobs = {"max_num_seqs": 16.0, "hot_cache_ratio": 0.35, LENGTH_GROUPING: 1.0, CONNECTION_CLOSE: False}
        await client.set_knobs(runtime, knobs | {MAX_NUM_QUEUED_REQS: None}, 15)
        await client.set_knobs(runtime, {MAX_NUM_QUEUED_REQS: NO_LIMIT}, 15)
        await client.renew_lease("boot-a", 15, {MAX_NUM_QUEUED_REQS: NO_LIMIT, LENGTH_GROUPING: 0})
    (_, _, first, _), (_, _, second, _), (_, _, lease, _) = engine.calls[1:]
    sent = first["knobs"]
    assert sent == {
        "max_num_seqs": 16,
        "hot_cache_ratio": 0.35,
        LENGTH_GROUPING: True,
        CONNECTION_CLOSE: False,
        MAX_NUM_QUEUED_REQS: None,
    }
    assert [type(value) for value in sent.values()] == [int, float, bool, bool, type(None)]
    assert second["knobs"] == {MAX_NUM_QUEUED_REQS: None}
    assert lease["fallback"] == {MAX_NUM_QUEUED_REQS: None, LENGTH_GROUPING: False}
    assert type(lease["fallback"][LENGTH_GROUPING]) is bool


# --- what is understood ---


def test_a_limit_that_is_off_reads_as_no_limit_and_a_knob_that_is_off_as_unknown() -> None:
    off = {"value": None, "startup": None, "min": None, "max": None, "support": "off", "reason": "no API process"}
    runtime = parse_runtime(document(max_num_seqs=CAP, max_num_queued_reqs=QUEUE, length_grouping=SWITCH))
    queue, switch = runtime.knob(MAX_NUM_QUEUED_REQS), runtime.knob(LENGTH_GROUPING)
    assert queue is not None
    assert (queue.value, queue.startup, queue.minimum) == (NO_LIMIT, NO_LIMIT, 0)
    assert switch is not None
    assert (type(switch.value), switch.value, switch.maximum) == (int, 0, 1)
    assert runtime.cores[0].fallback == {"max_num_seqs": 64, "max_num_queued_reqs": NO_LIMIT, "length_grouping": 0}
    unknown = parse_runtime(document(max_num_seqs=CAP, max_num_queued_reqs=off))
    assert unknown.cores[0].knobs[MAX_NUM_QUEUED_REQS].support is Support.OFF
    assert unknown.cores[0].knobs[MAX_NUM_QUEUED_REQS].value is None
    assert unknown.knob(MAX_NUM_QUEUED_REQS) is None


def test_the_engines_process_and_devices_are_read_and_unknown_from_an_older_plugin() -> None:
    answer = document(max_num_seqs=CAP)
    (core,) = parse_runtime(answer).cores
    assert (core.pid, core.visible_devices) == (4711, "2,3")
    for name in ("pid", "cuda_visible_devices"):
        del answer["engines"][0][name]
    (core,) = parse_runtime(answer).cores
    assert (core.pid, core.visible_devices) == (None, None)
    none_visible = document(max_num_seqs=CAP)
    none_visible["engines"][0]["cuda_visible_devices"] = ""
    assert parse_runtime(none_visible).cores[0].visible_devices == ""


@pytest.mark.parametrize("broken", [{"value": "eight"}, {"max": []}, {"support": "maybe"}])
def test_a_malformed_runtime_is_a_bad_reading_that_names_what_is_wrong(broken: dict[str, Any]) -> None:
    with pytest.raises(BadReading, match=str(next(iter(broken.values()))).replace("[", r"\[")):
        parse_runtime(document(max_num_seqs=CAP | broken))


@pytest.mark.parametrize("broken", [{"engines": []}, {"generation": float("inf")}, {"generation": float("nan")}])
def test_a_runtime_without_an_engine_core_or_with_no_number_for_one_is_a_bad_reading(broken: dict[str, Any]) -> None:
    with pytest.raises(BadReading):
        parse_runtime(document(max_num_seqs=CAP) | broken)


# --- transport ---


async def test_the_plugins_own_socket_is_called_without_reading_a_token(tmp_path: Path) -> None:
    socket = tmp_path / "governor.sock"
    settings = EngineSettings(
        url="https://nobody.invalid:8000", token_file=tmp_path / "no-such-token", admin_socket=socket
    )
    engine = Recorder(document(max_num_seqs=CAP))
    async with engine.serve(socket), Connections(settings) as connections:
        runtime = await EngineClient.over(connections.admin, settings).runtime()
    assert runtime.boot_id == "boot-a"
    ((method, path, _, headers),) = engine.calls
    assert (method, path) == ("GET", "/governor/v1/runtime")
    assert "Authorization" not in headers


async def test_a_socket_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = EngineSettings(admin_socket=tmp_path / "gone.sock")
    async with Connections(settings) as connections:
        with pytest.raises(EngineUnreachable, match=r"gone\.sock"):
            await EngineClient.over(connections.admin, settings).runtime()


async def test_certificates_that_cannot_be_used_stop_the_start_and_leave_a_running_daemon_as_it_was(
    tmp_path: Path,
) -> None:
    missing, broken = tmp_path / "missing.pem", tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for file in (missing, broken):
        with pytest.raises(SettingsError, match=rf"cannot use engine\.ca_file = {file}"):
            Connections(EngineSettings(ca_file=file))
    async with Connections(EngineSettings()) as connections:
        before = connections.admin, connections.vllm
        with pytest.raises(SettingsError):
            await connections.use(EngineSettings(ca_file=missing))
        assert (connections.admin, connections.vllm) == before
        assert not any(session.closed for session in before)


async def test_sessions_are_swapped_only_when_the_way_to_the_engine_changes(tmp_path: Path) -> None:
    async with Connections(EngineSettings()) as connections:
        first = connections.admin
        await connections.use(EngineSettings(url="http://127.0.0.1:9", timeout_s=1))
        assert connections.admin is first
        await connections.use(EngineSettings(admin_socket=tmp_path / "s"))
        assert first.closed
        assert not connections.admin.closed
    assert connections.admin.closed


async def test_what_the_plugin_refuses_and_what_it_cannot_do_now_are_told_apart() -> None:
    engine = FakeEngine()
    await engine.server.start_server()
    settings = EngineSettings(url=engine.url)
    async with Connections(settings) as connections:
        client = EngineClient.over(connections.admin, settings)
        runtime = await client.runtime()
        with pytest.raises(EngineRefused, match="another boot or generation"):
            await client.set_knobs(replace(runtime, generation=99), {"max_num_seqs": 8}, 15)
        engine.status = 503
        with pytest.raises(EngineUnreachable, match="did not answer in time"):
            await client.stats("")
    await engine.server.close()
