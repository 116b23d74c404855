"""The knobs that live in the API process, the freeze and the lease, each by its effect on a real vLLM server.

Belongs here: what takes a real server. Never: what an engine core in the test's own process shows (tests/engine).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from bench.emulated_gpu.plugin_path import PLUGIN_NAME, write_plugin
from bench.server import VllmServer
from bench.server_options import VllmOptions
from bench.setup import places
from controller.engine.client import EngineClient
from controller.engine.connections import admin_session
from controller.sensors.engine import EngineStatsSensor
from controller.settings import EngineSettings
from tests.e2e.rig import Rig
from tests.waiting import PATIENCE_S, until

SOON_S = 15.0
"""Ten times what following and a lease of a second take: later is broken, not busy."""
RUNTIME = "/governor/v1/runtime"
LEASE = "/governor/v1/lease"
FREEZE = "/governor/v1/freeze"
QUEUE, KEEP_ALIVE, CLOSE = "max_num_queued_reqs", "keep_alive_s", "connection_close"
KEEP_ALIVE_AT_START_S = 5


class Live:
    """One server, called as an operator would."""

    def __init__(self, server: VllmServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {self.server.token}"}
        async with self.session.request(method, self.server.url + path, json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def runtime(self) -> dict[str, Any]:
        status, runtime = await self.call("GET", RUNTIME)
        assert status == 200, runtime
        return runtime

    async def engine(self) -> dict[str, Any]:
        engine: dict[str, Any] = (await self.runtime())["engines"][0]
        return engine

    async def patch(self, lease_s: float = 60, **knobs: Any) -> dict[str, Any]:
        now = await self.runtime()
        body = {"boot_id": now["boot_id"], "generation": now["generation"], "lease_s": lease_s, "knobs": knobs}
        status, runtime = await self.call("PATCH", RUNTIME, body)
        assert status == 200, runtime
        return runtime

    async def lease(self, lease_s: float, fallback: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        named = {} if fallback is None else {"fallback": fallback}
        boot_id = (await self.runtime())["boot_id"]
        return await self.call("POST", LEASE, {"boot_id": boot_id, "lease_s": lease_s, **named})

    async def freeze(self, frozen: bool) -> dict[str, Any]:
        status, runtime = await self.call(
            "POST", FREEZE, {"boot_id": (await self.runtime())["boot_id"], "frozen": frozen}
        )
        assert status == 200, runtime
        return runtime

    async def closes(self) -> bool:
        """Whether an answer ends its connection."""
        # A session that closes its connections by itself would be answered in kind.
        async with aiohttp.ClientSession() as fresh, fresh.get(self.server.url + "/health") as answer:
            return answer.headers.get("Connection") == "close"

    async def refusals(self) -> float:
        """vLLM's own counter of requests refused for the queue's length."""
        async with self.session.get(self.server.url + "/metrics") as answer:
            lines = (await answer.text()).splitlines()
        counted = [line for line in lines if "admission_rejections_total" in line and 'max_num_queued_reqs"' in line]
        return sum(float(line.rpartition(" ")[2]) for line in counted)

    async def complete(self, max_tokens: int = 4) -> tuple[int, str | None]:
        """One completion; the status and Retry-After."""
        body = {"model": "tiny", "prompt": [9, 10, 11], "max_tokens": max_tokens, "ignore_eos": True}
        async with self.session.post(f"{self.server.url}/v1/completions", json=body) as answer:
            await answer.read()
            return answer.status, answer.headers.get("Retry-After")

    @asynccontextmanager
    async def held(self, count: int) -> AsyncIterator[None]:
        """That many requests in the engine for as long as it takes; aborted afterwards."""
        tasks = [asyncio.create_task(self.complete(max_tokens=2000)) for _ in range(count)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await until("the held requests are gone", self._idle)

    async def _idle(self) -> bool:
        engines = (await self.runtime())["engines"]
        return all(engine["running"] + engine["waiting"] == 0 for engine in engines)

    async def idle_connection_ends(self, within_s: float) -> bool:
        """Whether the server closes a connection within that time of its one answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        try:
            writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
            assert b" 200 " in head
            try:
                return await asyncio.wait_for(reader.read(), within_s) == b""
            except TimeoutError:
                return False
        finally:
            writer.close()


@pytest.fixture
async def live(rig: Rig) -> AsyncIterator[Live]:
    live = Live(rig.server, rig.session)
    yield live
    if (await live.engine())["frozen"]:
        await live.freeze(False)
    await live.lease(1, {})  # the fallback values of the next test are the start-up values

    async def as_started() -> bool:
        knobs = (await live.engine())["knobs"].values()
        return all(knob["value"] == knob["startup"] for knob in knobs)

    await until("the start-up values are back", as_started)


async def test_the_knobs_of_the_api_process_are_native_and_it_has_converged(live: Live) -> None:
    knobs = (await live.engine())["knobs"]
    assert {name: knobs[name]["support"] for name in (QUEUE, KEEP_ALIVE, CLOSE)} == dict.fromkeys(
        (QUEUE, KEEP_ALIVE, CLOSE), "native"
    )
    assert (knobs[QUEUE]["startup"], knobs[KEEP_ALIVE]["startup"]) == (None, KEEP_ALIVE_AT_START_S)

    async def converged() -> bool:
        (process,) = (await live.engine())["api_processes"]
        return bool(process["converged"] and process["age_s"] < 2 and process["pid"] == live.server.pid)

    await live.patch(max_num_seqs=32)
    await until("the API process has converged", converged, SOON_S)


async def test_a_queue_of_n_refuses_the_request_after_cap_and_n_with_retry_after(live: Live) -> None:
    await live.patch(max_num_seqs=4, **{QUEUE: 3})
    before = await live.refusals()

    async def four_run_and(count: int) -> bool:
        engine = await live.engine()
        return (engine["running"], engine["waiting"]) == (4, count)

    async with live.held(7):
        await until("4 run and 3 wait", lambda: four_run_and(3))
        assert await live.complete() == (503, "1")
        assert await live.refusals() == before + 1
        await live.patch(**{QUEUE: 4})
        taken = asyncio.create_task(live.complete(max_tokens=1))
        await until("the wider queue takes one more", lambda: four_run_and(4))
    assert (await taken)[0] == 200
    (process,) = (await live.engine())["api_processes"]
    assert process["rejected_total"] >= 1


async def test_the_limit_follows_the_cap_and_ends_with_null(live: Live) -> None:
    await live.patch(max_num_seqs=2, **{QUEUE: 0})

    async def two_run() -> bool:
        return bool((await live.engine())["running"] == 2)

    async with live.held(2):
        await until("2 run", two_run)
        assert (await live.complete())[0] == 503
        await live.patch(max_num_seqs=3)
        assert (await live.complete(max_tokens=1))[0] == 200
        await live.patch(max_num_seqs=2)
        assert (await live.complete())[0] == 503
        await live.patch(max_num_seqs=8, max_num_queued_reqs=None)
        assert (await live.complete())[0] == 200


async def test_an_idle_connection_is_closed_after_the_new_time(live: Live) -> None:
    await live.patch(lease_s=300, **{KEEP_ALIVE: 300})
    assert not await live.idle_connection_ends(within_s=KEEP_ALIVE_AT_START_S + 1)
    await live.patch(lease_s=300, **{KEEP_ALIVE: 1})
    assert await live.idle_connection_ends(within_s=PATIENCE_S)


async def test_connections_are_closed_while_wanted_and_serving_goes_on(live: Live) -> None:
    assert not await live.closes()
    await live.patch(**{CLOSE: True})
    assert await live.closes()
    assert (await live.complete())[0] == 200
    await live.patch(**{CLOSE: False})
    assert not await live.closes()


async def test_when_the_lease_runs_out_on_an_idle_engine_the_effects_end_without_a_call(live: Live) -> None:
    await live.patch(max_num_seqs=2, **{CLOSE: True, KEEP_ALIVE: 1, QUEUE: 0})
    assert await live.closes()
    await live.lease(1)
    await until("connections are kept again", lambda: _not(live.closes), SOON_S)
    assert not await live.idle_connection_ends(within_s=2)
    engine = await live.engine()
    assert engine["lease"]["expirations"] >= 1
    assert engine["knobs"]["max_num_seqs"]["value"] == 64


async def test_when_the_engine_core_hangs_the_api_process_falls_back_by_itself(live: Live) -> None:
    await live.patch(lease_s=1, **{CLOSE: True})
    cores = [child for child in psutil.Process(live.server.pid).children() if "EngineCore" in child.name()]
    assert len(cores) == 1
    cores[0].suspend()
    try:
        await until("connections are kept again", lambda: _not(live.closes), SOON_S)
    finally:
        cores[0].resume()
    assert (await live.complete())[0] == 200
    assert (await live.engine())["lease"]["expirations"] >= 1


async def test_a_freeze_ends_every_effect_and_refuses_every_change_until_it_is_lifted(live: Live) -> None:
    await live.patch(max_num_seqs=2, **{CLOSE: True, QUEUE: 0})
    assert await live.closes()
    frozen = (await live.freeze(True))["engines"][0]
    assert (frozen["frozen"], frozen["knobs"]["max_num_seqs"]["value"], frozen["knobs"][QUEUE]["value"]) == (
        True,
        64,
        None,
    )
    assert not await live.closes()
    now = await live.runtime()
    change = {"boot_id": now["boot_id"], "generation": now["generation"], "lease_s": 9, "knobs": {CLOSE: True}}
    status, answer = await live.call("PATCH", RUNTIME, change)
    assert (status, answer["error"]["code"]) == (423, "frozen")
    assert (await live.lease(5))[0] == 200
    assert (await live.complete())[0] == 200
    await live.freeze(False)
    await live.patch(**{CLOSE: True})
    assert await live.closes()


async def test_each_change_is_in_the_log_with_its_caller_and_without_the_token(live: Live) -> None:
    await live.patch(max_num_seqs=17)
    log = live.server.log.read_text()
    audits = [line for line in log.splitlines() if "governor audit" in line and "'max_num_seqs': 17" in line]
    assert len(audits) == 1
    assert "caller='127.0.0.1:" in audits[0]
    assert live.server.token not in log


async def _not(condition: Callable[[], Any]) -> bool:
    return not await condition()


# --- two engine cores, two API servers ---


@pytest.fixture
async def wide(tmp_path: Path) -> AsyncIterator[Live]:
    """Data parallel 2 behind two API servers, on the emulated GPU, with a Unix socket."""
    plugins = write_plugin(tmp_path / "plugins")
    paths = os.pathsep.join([str(places.PLUGIN_OVERLAY), str(plugins), str(places.ROOT)])
    options = VllmOptions(
        executor="bench.emulated_gpu.executor.EmulatedGpuExecutor",
        extra_args=("--data-parallel-size", "2", "--api-server-count", "2"),
        extra_env={
            "PYTHONPATH": paths,
            "VLLM_PLUGINS": f"governor,{PLUGIN_NAME}",
            "VLLM_GOVERNOR_SOCKET": str(tmp_path / "governor.sock"),
        },
    )
    server = VllmServer(tmp_path, options)
    connector = aiohttp.TCPConnector(force_close=True)  # so that both API servers get calls
    async with server, aiohttp.ClientSession(connector=connector) as session:
        yield Live(server, session)


@pytest.mark.long
async def test_two_api_servers_converge_and_divide_the_queue(wide: Live, tmp_path: Path) -> None:
    async def all_report() -> bool:
        engines = (await wide.runtime())["engines"]
        return len(engines) == 2 and all(len(engine["api_processes"]) == 2 for engine in engines)

    async def all_converged() -> bool:
        engines = (await wide.runtime())["engines"]
        return all(process["converged"] for engine in engines for process in engine["api_processes"])

    await until("both API servers have reported to both cores", all_report)
    await until("both have converged", all_converged)
    knobs = (await wide.engine())["knobs"]
    assert knobs[KEEP_ALIVE]["support"] == knobs[CLOSE]["support"] == "native"
    assert knobs[QUEUE]["support"] == "limited"

    changed = await wide.patch(max_num_seqs=8, **{CLOSE: True, QUEUE: 4, KEEP_ALIVE: 60})
    await until("both have converged", all_converged, SOON_S)
    assert [engine["knobs"]["max_num_seqs"]["value"] for engine in changed["engines"]] == [8, 8]
    assert len({process["pid"] for engine in changed["engines"] for process in engine["api_processes"]}) == 2
    assert all([await wide.closes() for _ in range(10)])  # whichever of the two answers

    settings = EngineSettings(admin_socket=tmp_path / "governor.sock")
    async with admin_session(settings) as session:  # it asks for no token
        client = EngineClient.over(session, settings)
        assert (await client.runtime()).boot_id == changed["boot_id"]
        stats = await EngineStatsSensor(client).read()
        assert [core.boot_id for core in stats.cores] == changed["boot_id"].split("+")
        assert len({core.pid for core in (await client.runtime()).cores}) == 2

    async def twenty_are_in() -> bool:
        engines = (await wide.runtime())["engines"]
        return bool(sum(engine["running"] + engine["waiting"] for engine in engines) == 2 * 8 + 4)

    async with wide.held(40):  # each server takes its half of the limit
        await until("the caps and the queue are full", twenty_are_in)
        assert await wide.complete() == (503, "1")

    await wide.freeze(True)
    await until("both have converged", all_converged)
    assert not any([await wide.closes() for _ in range(10)])
    assert (await wide.complete())[0] == 200
