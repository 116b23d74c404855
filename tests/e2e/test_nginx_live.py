"""The shipped nginx files and the client's example, through a real nginx to a real vLLM."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import aiohttp
import pytest

from bench.connections.certificate import HOST
from bench.server import VllmServer
from deploy.client import heartbeat
from tests.e2e.rig import Rig
from tests.nginx import CountingRelay, shipped_nginx
from tests.waiting import PATIENCE_S, until

REQUESTS, CLIENTS = 200, 10
TOKENS = 8
BODY = {
    "model": "tiny",
    "prompt": [9, 10, 11],
    "max_tokens": TOKENS,
    "ignore_eos": True,
    "stream": True,
    "stream_options": {"include_usage": True},
}


async def stream(session: aiohttp.ClientSession, url: str) -> int:
    """One streamed completion, whole: the tokens that vLLM says it sent."""
    async with session.post(f"{url}/v1/completions", json=BODY) as answer:
        assert answer.status == 200
        *said, done = [line[6:].strip() async for line in answer.content if line.startswith(b"data: ")]
        assert done == b"[DONE]"
        return int(json.loads(said[-1])["usage"]["completion_tokens"])


async def test_two_hundred_streams_over_kept_connections_complete_and_open_few(
    server: VllmServer, tmp_path: Path
) -> None:
    async with CountingRelay(server.port) as relay:
        nginx, issued = shipped_nginx(tmp_path, relay.address)
        with nginx:
            url = f"https://{HOST}:{nginx.port}"
            kept = heartbeat.connector(limit=CLIENTS, ssl=issued.trusting())
            async with aiohttp.ClientSession(connector=kept) as session:
                answers = await asyncio.gather(*(stream(session, url) for _ in range(REQUESTS)))
        logged = nginx.requests()  # the last one is logged after its answer
    assert answers == [TOKENS] * REQUESTS
    assert len(logged) == REQUESTS
    assert len({number for number, *_ in logged}) <= CLIENTS
    assert 1 <= relay.opened <= REQUESTS / 4, "each worker of nginx keeps connections of its own"


@pytest.mark.parametrize(
    "path", ["/governor/v1/runtime", "//governor/v1/runtime", "/%67overnor/v1/runtime", "/v1/../governor/v1/runtime",
             "/v1/..%2fgovernor/v1/runtime", "/metrics", "/v1/%2e%2e/governor/v1/stats"],
)  # fmt: skip
async def test_what_changes_or_watches_the_engine_is_not_reached_through_it(
    server: VllmServer, tmp_path: Path, path: str
) -> None:
    nginx, issued = shipped_nginx(tmp_path, f"127.0.0.1:{server.port}")
    with nginx:
        ssl = issued.trusting()
        reader, writer = await asyncio.open_connection(HOST, nginx.port, ssl=ssl, family=2)  # as it is, unnormalised
        token = f"Authorization: Bearer {server.token}"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n{token}\r\nConnection: close\r\n\r\n".encode())
        said = await asyncio.wait_for(reader.read(), PATIENCE_S)
        writer.close()
    assert said.startswith(b"HTTP/1.1 404 ")
    assert b"nginx" in said, "vLLM was not asked"


async def test_a_refusal_for_a_full_queue_passes_with_its_retry_after(rig: Rig, tmp_path: Path) -> None:
    runtime = await rig.client.runtime()
    await rig.client.set_knobs(runtime, {"max_num_seqs": 1, "max_num_queued_reqs": 0}, 120.0)
    nginx, issued = shipped_nginx(tmp_path, f"127.0.0.1:{rig.server.port}")
    answers: list[tuple[int, str | None]] = []

    async def some_refused() -> bool:
        answers[:] = await asyncio.gather(*(ask(session, nginx.port) for _ in range(8)))
        return any(status == 503 for status, _ in answers)

    with nginx:
        kept = heartbeat.connector(ssl=issued.trusting())
        async with aiohttp.ClientSession(connector=kept) as session:
            await until("the API process follows the limit", some_refused)
    assert {status for status, _ in answers} == {200, 503}
    assert {waits for status, waits in answers if status == 503} == {"1"}


async def ask(session: aiohttp.ClientSession, port: int) -> tuple[int, str | None]:
    """The status of a long completion, and how long its refusal asks to wait."""
    body = BODY | {"max_tokens": 200}
    async with session.post(f"https://{HOST}:{port}/v1/completions", json=body) as answer:
        await answer.read()
        return answer.status, answer.headers.get("Retry-After")


async def connections(server: VllmServer, folder: Path, *, beating: bool) -> int:
    """How many connections two questions take with 8 s between them, where nginx closes after 5 idle ones."""
    nginx, issued = shipped_nginx(folder, f"127.0.0.1:{server.port}", keepalive_timeout="5s")
    with nginx:
        url = f"https://{HOST}:{nginx.port}"
        kept = heartbeat.connector(limit=1, ssl=issued.trusting())
        async with aiohttp.ClientSession(connector=kept) as session:
            await stream(session, url)
            beats = asyncio.create_task(heartbeat.keep_alive(session, url, 0.5 if beating else 60.0))
            await asyncio.sleep(8.0)
            beats.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beats
            await stream(session, url)
    return len({number for number, *_ in nginx.requests()})  # what was asked last is logged by now


async def test_the_clients_heartbeat_keeps_a_connection_that_nginx_would_close(
    server: VllmServer, tmp_path: Path
) -> None:
    for folder in ("silent", "beating"):
        (tmp_path / folder).mkdir()
    silent, beating = await asyncio.gather(
        connections(server, tmp_path / "silent", beating=False), connections(server, tmp_path / "beating", beating=True)
    )
    assert (silent, beating) == (2, 1)
