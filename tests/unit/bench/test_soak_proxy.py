"""The proxy passes everything on and spoils what it is told to, against a small server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial

import aiohttp
import pytest
from aiohttp import web

from bench.soak.accounting import Ledger
from bench.soak.crowd import Crowd
from bench.soak.faults import spoil
from bench.soak.plan import CHANGES, Fault, Kind
from bench.soak.proxy import Proxy
from controller.engine.client import EngineClient
from domain.errors import EngineUnreachable, StaleGeneration
from domain.knobs import MAX_NUM_SEQS
from tests.views import runtime
from tests.waiting import until

METRICS, RUNTIME, LEASE = "/metrics", "/governor/v1/runtime", "/governor/v1/lease"


@dataclass(slots=True)
class Upstream:
    """Counts what reaches it."""

    runner: web.AppRunner
    seen: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.runner.addresses[0][1]}"

    async def answer(self, request: web.Request) -> web.Response:
        self.seen.append((request.method, request.path_qs, request.headers.get("Authorization", "")))
        body = await request.read()
        if request.path.startswith("/v1/"):
            await asyncio.sleep(0.002)
            return web.Response(text='{"choices":[{"finish_reason":"length"}]}')
        if request.method == "PATCH":
            return web.json_response({"error": {"code": "conflict", "message": body.decode()}}, status=409)
        return web.Response(text="vllm:x 1\n", headers={"X-Other": "1"})


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    application = web.Application()
    made = Upstream(web.AppRunner(application))
    application.router.add_route("*", "/{path:.*}", made.answer)
    await made.runner.setup()
    await web.TCPSite(made.runner, "127.0.0.1", 0).start()
    yield made
    await made.runner.cleanup()


@pytest.fixture
async def proxy(upstream: Upstream) -> AsyncIterator[Proxy]:
    async with Proxy(upstream.url) as made:
        yield made


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


def answered(ledger: Ledger, at_least: int) -> bool:
    return ledger.ok >= at_least


async def get(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with session.get(url) as answer:
        return answer.status, await answer.text()


async def test_without_a_fault_method_query_token_body_and_status_pass(
    upstream: Upstream, proxy: Proxy, session: aiohttp.ClientSession
) -> None:
    assert await get(session, proxy.url + METRICS) == (200, "vllm:x 1\n")
    headers = {"Authorization": "Bearer t"}
    async with session.patch(proxy.url + RUNTIME + "?a=1", data="{}", headers=headers) as answer:
        assert (answer.status, (await answer.json())["error"]["message"]) == (409, "{}")
    assert upstream.seen == [("GET", METRICS, ""), ("PATCH", RUNTIME + "?a=1", "Bearer t")]


@pytest.mark.parametrize(
    ("fault", "path", "status", "text"),
    [(Kind.METRICS_500, METRICS, 500, "Internal Server Error"), (Kind.METRICS_EMPTY, METRICS, 200, ""),
     (Kind.ADMIN_500, RUNTIME, 500, "Internal Server Error")],
)  # fmt: skip
async def test_a_spoiled_answer_never_reaches_the_engine(
    upstream: Upstream, proxy: Proxy, session: aiohttp.ClientSession, fault: Kind, path: str, status: int, text: str
) -> None:
    proxy.spoil(fault)
    assert await get(session, proxy.url + path) == (status, text)
    assert upstream.seen == []
    proxy.mend()
    assert (await get(session, proxy.url + path))[0] == 200
    assert proxy.spoiled == 1


async def test_faults_of_one_side_leave_the_other_alone(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    proxy.spoil(Kind.METRICS_500)
    assert (await get(session, proxy.url + RUNTIME))[0] == 200
    proxy.spoil(Kind.ADMIN_500)
    assert (await get(session, proxy.url + METRICS))[0] == 200


async def test_a_call_that_hangs_is_cut_off_when_the_fault_ends(
    upstream: Upstream, proxy: Proxy, session: aiohttp.ClientSession
) -> None:
    proxy.spoil(Kind.METRICS_HANG)
    # A GET would be tried again by aiohttp's client.
    waiting = asyncio.ensure_future(session.post(proxy.url + METRICS))
    await until("it hangs", lambda: proxy.spoiled > 0)
    assert not waiting.done()
    proxy.mend()
    with pytest.raises(aiohttp.ClientError):
        await waiting
    assert upstream.seen == []


async def test_a_call_that_is_cut_has_been_carried_out(
    upstream: Upstream, proxy: Proxy, session: aiohttp.ClientSession
) -> None:
    proxy.spoil(Kind.CHANGE_CUT)
    with pytest.raises(aiohttp.ClientError):
        await session.patch(proxy.url + RUNTIME, data="{}")
    assert [method for method, _, _ in upstream.seen] == ["PATCH"]


async def test_the_daemons_own_client_takes_each_fault_for_what_it_is(
    proxy: Proxy, session: aiohttp.ClientSession
) -> None:
    client = EngineClient(session, proxy.url, None, timeout_s=5.0)
    proxy.spoil(Kind.CHANGE_STALE)
    with pytest.raises(StaleGeneration):
        await client.set_knobs(runtime(), {MAX_NUM_SEQS: 16.0}, 15.0)
    with pytest.raises(StaleGeneration):
        await client.purge("boot-a", 0.5)
    for fault in (Kind.CHANGE_500, Kind.CHANGE_CUT, Kind.ADMIN_500):
        proxy.spoil(fault)
        with pytest.raises(EngineUnreachable):
            await client.set_knobs(runtime(), {MAX_NUM_SEQS: 16.0}, 15.0)


@pytest.mark.parametrize("fault", sorted(CHANGES))
async def test_reading_and_the_lease_pass_while_changes_are_spoiled(
    upstream: Upstream, proxy: Proxy, session: aiohttp.ClientSession, fault: Kind
) -> None:
    proxy.spoil(fault)
    assert (await get(session, proxy.url + RUNTIME))[0] == 200
    async with session.post(proxy.url + LEASE, data="{}") as answer:
        assert answer.status == 200
    assert len(upstream.seen) == 2
    assert proxy.spoiled == 0


async def test_a_fault_of_changes_waits_until_it_has_met_one(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    spoiling = asyncio.create_task(spoil(proxy, Fault(Kind.CHANGE_500)))
    await asyncio.sleep(0)
    assert (await get(session, proxy.url + RUNTIME))[0] == 200
    assert not spoiling.done()
    async with session.patch(proxy.url + RUNTIME, data="{}") as answer:
        assert answer.status == 500
    await spoiling
    async with session.patch(proxy.url + RUNTIME, data="{}") as answer:
        assert answer.status == 409


async def test_an_engine_that_is_away_is_a_broken_connection(
    upstream: Upstream, proxy: Proxy, session: aiohttp.ClientSession
) -> None:
    await upstream.runner.cleanup()
    with pytest.raises(aiohttp.ClientError):
        await session.get(proxy.url + METRICS)


async def test_the_crowd_changes_its_size_without_a_failed_request(upstream: Upstream) -> None:
    ledger = Ledger()
    async with Crowd(upstream.url, "tiny", ledger.take) as crowd:
        for clients in (8, 64, 16):
            await crowd.become(clients)
            assert crowd.clients == clients
            before = ledger.ok
            await until("all are served", partial(answered, ledger, before + clients))
    assert crowd.clients == 0
    assert ledger.failures == []
