"""What vLLM's /metrics has done to others: the answers are played by real servers on loopback."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from controller.bodies import MAX_BYTES
from controller.engine.client import EngineClient
from controller.sensors.vllm import Parser, VllmSensor, parse
from domain.errors import BadReading, EngineUnreachable, RecoverableError
from domain.readings.vllm import VllmReading
from domain.slo import Latency
from tests import views

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
RUNNING = 'vllm:num_requests_running{engine="0",model_name="m"} 3.0\n'
PYTHON_ONLY = '# TYPE python_gc_collections_total counter\npython_gc_collections_total{generation="0"} 305.0\n'


@asynccontextmanager
async def serving(metrics: Handler, keepalive_timeout: float = 60.0) -> AsyncIterator[str]:
    """A server with /metrics, /metrics/ and a /health that is always well; the address."""

    async def health(_request: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/metrics/", metrics)
    app.router.add_get("/health", health)
    runner = web.AppRunner(app, keepalive_timeout=keepalive_timeout)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def answering(text: str, status: int = 200) -> Handler:
    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(text=text, status=status)

    return metrics


async def read(url: str, times: int = 1) -> list[VllmReading | RecoverableError]:
    """What one sensor says, scrape by scrape."""
    said: list[VllmReading | RecoverableError] = []
    async with aiohttp.ClientSession() as session:
        sensor = VllmSensor(session, url, 5.0)
        for _ in range(times):
            try:
                said.append(await sensor.read())
            except RecoverableError as error:
                said.append(error)
    return said


OLD_KV = 'vllm:gpu_cache_usage_perc{engine="0"} 0.81\n'
NEW_KV = 'vllm:kv_cache_usage_perc{engine="0"} 0.81\n'


@pytest.mark.parametrize(
    ("text", "used"),
    [
        (OLD_KV, "vllm:gpu_cache_usage_perc"),
        (NEW_KV, "vllm:kv_cache_usage_perc"),
        (OLD_KV + NEW_KV, "vllm:kv_cache_usage_perc"),
        (NEW_KV + OLD_KV, "vllm:kv_cache_usage_perc"),
    ],
)
def test_a_renamed_series_is_read_by_either_name_never_summed_and_its_name_is_recorded(text: str, used: str) -> None:
    """Field case M1."""
    reading = Parser().parse(text)
    assert reading.kv_cache_usage_ratio == 0.81
    assert reading.series == {"kv_cache_usage_ratio": used}


def _latency(name: str, count: int) -> str:
    return "".join(f'vllm:{name}_bucket{{engine="0",le="{le}"}} {count}\n' for le in ("0.1", "+Inf")) + (
        f'vllm:{name}_sum{{engine="0"}} 0.5\n'
    )


@pytest.mark.parametrize(
    "names",
    [
        ["time_per_output_token_seconds"],
        ["inter_token_latency_seconds"],
        ["time_per_output_token_seconds", "inter_token_latency_seconds"],
    ],
)
def test_a_renamed_latency_is_read_by_either_name_and_the_newest_wins(names: list[str]) -> None:
    """Field case M1."""
    reading = Parser().parse("".join(_latency(name, 4 + number) for number, name in enumerate(names)))
    assert reading.latencies[Latency.ITL].samples == 3 + len(names)
    assert reading.series == {"inter_token_latency": f"vllm:{names[-1]}"}


def test_a_series_that_is_absent_is_unknown_and_not_zero() -> None:
    """Field case M1."""
    reading = Parser().parse(RUNNING)
    assert reading.running == 3
    unknown = (reading.waiting, reading.deferred, reading.kv_cache_usage_ratio, reading.asleep, reading.preemptions)
    assert unknown == (None,) * 5
    assert (reading.latencies, reading.prompt_lengths, reading.requests_rejected) == ({}, None, None)


async def test_a_redirect_to_the_mounted_path_is_followed() -> None:
    """Field case M2."""

    async def metrics(request: web.Request) -> web.Response:
        if request.path == "/metrics":
            return web.Response(status=307, headers={"Location": "/metrics/"})
        return web.Response(text=RUNNING)

    async with serving(metrics) as url:
        (reading,) = await read(url)
    assert isinstance(reading, VllmReading)
    assert reading.running == 3


@pytest.mark.parametrize(
    ("text", "status", "hint"),
    [
        ("", 200, "--disable-log-stats"),
        (PYTHON_ONLY, 200, "PROMETHEUS_MULTIPROC_DIR"),
        (PYTHON_ONLY + 'http_response_size_bytes_sum{handler="/v1/models"} 9\n', 200, "--disable-log-stats"),
        ("Internal Server Error", 500, "PROMETHEUS_MULTIPROC_DIR"),
    ],
)
async def test_an_answer_without_engine_data_is_blindness_said_the_same_way_each_time(
    text: str, status: int, hint: str
) -> None:
    """Field case M2: never "idle"; the text is compared from tick to tick to say a thing once."""
    async with serving(answering(text, status)) as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/health") as health:
            assert health.status == 200
        said = await read(url, times=3)
    assert {type(one) for one in said} == {BadReading}
    assert len({str(one) for one in said}) == 1
    assert str(said[0]).startswith("cannot see the engine at ")
    assert hint in str(said[0])


async def test_a_redirect_in_a_circle_ends() -> None:
    """Field case M2."""
    asked = 0

    async def metrics(_request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=307, headers={"Location": "/metrics/"})

    async with serving(metrics) as url:
        (said,) = await read(url)
    assert isinstance(said, BadReading)
    assert "redirects in a circle" in str(said)
    assert asked <= 4


def test_the_fullest_engine_counts_requests_are_summed_and_each_engine_is_kept() -> None:
    """Field case M4."""
    reading = Parser().parse(
        'vllm:num_requests_running{engine="0"} 40\nvllm:num_requests_running{engine="1"} 2\n'
        'vllm:num_requests_waiting{engine="0"} 7\nvllm:num_requests_waiting{engine="1"} 0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.97\nvllm:kv_cache_usage_perc{engine="1"} 0.10\n'
        'vllm:generation_tokens_total{engine="0"} 900\nvllm:generation_tokens_total{engine="1"} 5\n'
    )
    assert (reading.running, reading.waiting, reading.kv_cache_usage_ratio) == (42, 7, 0.97)
    of_each = [(one.engine, one.running, one.waiting, one.kv_cache_usage_ratio) for one in reading.engines]
    assert of_each == [("0", 40, 7, 0.97), ("1", 2, 0, 0.10)]
    assert (reading.generation_tokens, [one.generation_tokens for one in reading.engines]) == (905, [900, 5])


def test_counters_pass_through_as_they_are_even_when_they_fall() -> None:
    """Field case M7: a restart is for the estimator to see."""
    parser = Parser()
    read_off = [
        parser.parse(f'vllm:prompt_tokens_total{{engine="0"}} {value}\n').prompt_tokens
        for value in (50000, 50600, 300, 900)
    ]
    assert read_off == [50000, 50600, 300, 900]


def test_zero_cache_hits_are_a_number_and_absent_ones_are_not() -> None:
    """Field case M10: zero hits can be correct."""
    queries = 'vllm:prefix_cache_queries_total{engine="0"} 24000.0\n'
    none_known = Parser().parse(queries)
    assert (none_known.prefix_cache_queries, none_known.prefix_cache_hits) == (24000, None)
    reading = Parser().parse(
        queries + 'vllm:prefix_cache_hits_total{engine="0"} 0.0\nvllm:num_preemptions_total{engine="0"} 0.0\n'
    )
    assert (reading.prefix_cache_queries, reading.prefix_cache_hits, reading.preemptions) == (24000, 0, 0)


def _lora_rows(count: int) -> str:
    return "".join(
        f'vllm:lora_requests_info{{max_lora="4",running_lora_adapters="a{i},b{i}",'
        f'waiting_lora_adapters="adapter-number-{i},another-adapter-{i}"}} 1.7395e+09\n'
        for i in range(count)
    )


async def test_rows_that_pile_up_hide_no_other_series_and_their_timestamps_reach_no_value() -> None:
    """Field case M9: 4 MB of LoRA rows."""
    text = RUNNING + _lora_rows(30_000) + NEW_KV
    assert len(text) > 4_000_000
    async with serving(answering(text)) as url:
        (reading,) = await read(url)
    assert reading == Parser().parse(RUNNING + NEW_KV)


async def test_statistics_without_end_are_cut_off_at_the_byte_cap_and_said() -> None:
    """Field case M9: the admin calls go to the same server."""
    sent = 0

    async def statistics(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while sent < 8 * MAX_BYTES:
            await response.write(b"{" + b" " * 99_999)
            sent += 100_000
        return response

    app = web.Application()
    app.router.add_get("/governor/v1/stats", statistics)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        with pytest.raises(EngineUnreachable, match=f"longer than {MAX_BYTES} bytes"):
            await EngineClient(session, str(server.make_url("")).rstrip("/"), None, 20.0).stats("")
    assert sent < 2 * MAX_BYTES


def test_lines_without_number_are_learnt_over_several_answers_and_never_hold_up_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Field case M9: parse within a time cap. Rows of the wanted series pile up, and then stay."""
    looks = itertools.count()
    monkeypatch.setattr(parse, "time", SimpleNamespace(monotonic=lambda: next(looks) * parse.LEARN_S / 2000))
    text = "".join(f'vllm:prompt_tokens_total{{engine="{number}"}} 1\n' for number in range(6000))
    parser, said = Parser(), []
    for _ in range(1000):
        try:
            reading = parser.parse(text)
            break
        except BadReading as error:
            said.append(str(error))
    assert reading.prompt_tokens == 6000
    assert len(said) == 2, "2,000 lines take as long as one answer may"
    assert len(set(said)) == 1


async def test_an_answer_without_end_is_cut_off_at_the_byte_cap_and_said() -> None:
    """Field case M9."""
    sent = 0

    async def metrics(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        rows = _lora_rows(1000).encode()
        while sent < 8 * MAX_BYTES:
            await response.write(rows)
            sent += len(rows)
        return response

    async with serving(metrics) as url:
        (said,) = await read(url)
    assert isinstance(said, BadReading)
    assert f"longer than {MAX_BYTES} bytes" in str(said)
    assert sent < 2 * MAX_BYTES


async def test_a_poll_as_slow_as_the_servers_keep_alive_never_fails() -> None:
    """Field case S3: each poll comes after the server has closed the connection of the one before."""
    connections: set[object] = set()

    async def metrics(request: web.Request) -> web.Response:
        connections.add(request.transport)
        return web.Response(text=RUNNING)

    async with serving(metrics, keepalive_timeout=0.05) as url, aiohttp.ClientSession() as session:
        sensor = VllmSensor(session, url, 5.0)
        for _ in range(3):
            assert (await sensor.read()).running == 3
            await asyncio.sleep(0.2)
    assert len(connections) == 3


class ClosesLate:
    """Keeps the first connection open after its answer and drops it when the next request comes: the closed
    connection that the client could not know of.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        first = self._connections == 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.requests.append(head.split(b" ", 1)[0].decode())
                if first and len(self.requests) > 1:
                    break
                writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(RUNNING)}\r\n\r\n{RUNNING}".encode())
        except asyncio.IncompleteReadError:
            pass
        writer.close()


@asynccontextmanager
async def closing_late() -> AsyncIterator[tuple[ClosesLate, str]]:
    late = ClosesLate()
    server = await asyncio.start_server(late.serve, "127.0.0.1", 0)
    try:
        yield late, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def test_a_scrape_on_a_connection_that_was_closed_is_repeated_once() -> None:
    """Field case S3."""
    async with closing_late() as (server, url):
        readings = await read(url, times=2)
    assert [getattr(one, "running", one) for one in readings] == [3, 3]
    assert server.requests == ["GET", "GET", "GET"]


async def test_a_change_on_a_connection_that_was_closed_is_never_repeated() -> None:
    """Field case S3: it may have been carried out."""
    async with closing_late() as (server, url), aiohttp.ClientSession() as session:
        assert (await VllmSensor(session, url, 5.0).read()).running == 3
        with pytest.raises(EngineUnreachable):
            await EngineClient(session, url, None, 5.0).set_knobs(views.runtime(), {"max_num_seqs": 4}, 15.0)
    assert server.requests == ["GET", "PATCH"]
