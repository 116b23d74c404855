"""The laws of the closed-loop load, against a small server in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from bench.load import CANCELLED, Load, LoadError, LoadOptions, RequestRecord, check_target, served_model, summarise
from tests.waiting import until

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[str]:
    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "tiny", "max_model_len": 2048}]})

    app = web.Application()
    app.router.add_post("/v1/completions", handler)
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def answers(request: web.Request) -> web.Response:
    await asyncio.sleep(0.002)
    return web.Response(text='{"choices":[{"finish_reason":"length"}]}')


def record(start_s: float, end_s: float, ok: bool = True, cause: str | None = None) -> RequestRecord:
    return RequestRecord(start_s, end_s, ok, 200 if ok else None, "short", cause)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/", "http://localhost:1", "http://[::1]:80", "http://127.9.9.9"])
def test_loopback_targets_are_accepted(url: str) -> None:
    assert check_target(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1:8000", "http://vllm.example", "http://0.0.0.0:1", "http://127.0.0.1.nip"]
)
def test_any_other_target_is_refused_unless_allowed(url: str) -> None:
    with pytest.raises(LoadError, match="not a loopback address"):
        check_target(url)
    assert check_target(url, allow_remote=True) == url


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://127.0.0.1", "", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(LoadError, match="not an address"):
        check_target(url, allow_remote=True)


def test_a_summary_counts_good_answers_and_keeps_failures_apart() -> None:
    records = [record(0.0, number / 100) for number in range(1, 101)] + [record(0.0, 9.0, False, "HTTP 503: full")]
    stats = summarise(records, 10.0)
    assert (stats.ok, stats.failed, stats.rps) == (100, 1, 10.0)
    assert (stats.p50_s, stats.p99_s) == (0.5, 0.99)
    assert stats.causes == {"HTTP 503: full": 1}


def test_without_good_answers_the_quantiles_are_unknown() -> None:
    stats = summarise([record(0.0, 1.0, False, "x")], 1.0)
    assert (stats.p50_s, stats.p99_s, stats.rps) == (None, None, 0.0)


async def test_each_client_has_one_request_in_flight() -> None:
    most = running = 0

    async def count(request: web.Request) -> web.Response:
        nonlocal most, running
        running += 1
        most = max(most, running)
        try:
            return await answers(request)
        finally:
            running -= 1

    async with server(count) as url:
        since_s = time.monotonic()
        async with Load(url, "tiny", LoadOptions(clients=5, limit_s=0.2)) as load:
            await until("its time is over", lambda: not load.running)
        stats = load.stats(since_s)
    assert most == 5
    assert load.ok_total == stats.ok >= 5
    assert load.failed_total == load.in_flight == 0


async def test_a_window_holds_only_what_ended_in_it() -> None:
    async with server(answers) as url, Load(url, "tiny", LoadOptions(clients=2)) as load:
        await until("some are answered", lambda: load.ok_total > 5)
        middle_s, before = time.monotonic(), load.ok_total
        await until("more are answered", lambda: load.ok_total > before + 5)
        end_s = time.monotonic()
        assert load.stats(0.0, middle_s).ok + load.stats(middle_s, end_s).ok == load.stats(0.0, end_s).ok
        assert load.stats(middle_s, end_s).ok > 0


async def test_a_refused_request_is_recorded_with_its_cause() -> None:
    async def full(request: web.Request) -> web.Response:
        return web.Response(status=503, text="queue is full")

    async with server(full) as url, Load(url, "tiny", LoadOptions(clients=1)) as load:
        await until("one is refused", lambda: load.failed_total > 0)
    assert load.ok_total == 0
    assert load.causes["HTTP 503: queue is full"] == load.failed_total > 0


async def test_an_answer_cut_short_is_a_failure() -> None:
    async def aborted(request: web.Request) -> web.Response:
        return web.Response(text='{"choices":[{"finish_reason":"abort"}]}')

    async with server(aborted) as url, Load(url, "tiny", LoadOptions(clients=1)) as load:
        await until("one is answered", lambda: load.failed_total > 0)
    assert list(load.causes) == ["HTTP 200 without the tokens asked for"]


async def test_a_dead_server_is_a_recorded_failure_and_not_hammered(unused_tcp_port: int) -> None:
    async with Load(f"http://127.0.0.1:{unused_tcp_port}", "tiny", LoadOptions(clients=1)) as load:
        await until("one has failed", lambda: load.failed_total > 0)
        await asyncio.sleep(0.1)
    assert load.failed_total < 10
    assert "ClientConnectorError" in next(iter(load.causes))


async def test_what_does_not_finish_in_time_at_the_stop_is_recorded() -> None:
    async def never(request: web.Request) -> web.Response:
        await asyncio.sleep(0.5)
        return await answers(request)

    async with server(never) as url:
        load = Load(url, "tiny", LoadOptions(clients=3))
        await load.start()
        await asyncio.sleep(0.05)
        await load.stop(drain_s=0.05)
    assert load.causes == {CANCELLED: 3}
    assert load.in_flight == 0


async def test_the_served_model_is_asked_for() -> None:
    async with server(answers) as url:
        assert (await served_model(url)).name == "tiny"


async def test_no_model_is_one_sentence(unused_tcp_port: int) -> None:
    with pytest.raises(LoadError, match="cannot learn the model"):
        await served_model(f"http://127.0.0.1:{unused_tcp_port}")
