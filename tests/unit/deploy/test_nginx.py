"""The shipped nginx files, held against nginx itself and the seeds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from bench.connections import nginx_files
from bench.connections.certificate import HOST
from bench.connections.nginx import NginxError
from tests.nginx import shipped_nginx

SITE = (nginx_files.SHIPPED / "vllm.conf").read_text(encoding="utf-8")
DIRECTIVES = [line.split("#")[0].strip() for line in SITE.splitlines()]


def test_nginx_finds_no_fault_and_nothing_to_warn_of(tmp_path: Path) -> None:
    nginx, _ = shipped_nginx(tmp_path, "127.0.0.1:8000")
    said = nginx.check()
    assert "test is successful" in said
    assert "[warn]" not in said
    assert "[alert]" not in said


def test_nginx_names_a_fault_of_the_file(tmp_path: Path) -> None:
    nginx, _ = shipped_nginx(tmp_path, "127.0.0.1:8000", keepalive_timeout="soon")
    with pytest.raises(NginxError, match="keepalive_timeout"):
        nginx.check()


@pytest.mark.parametrize("said", ["keepalive_timeout 180s;", "keepalive_requests 1000;", "keepalive 32;"])
def test_the_seeds_settings_are_there(said: str) -> None:
    assert said in DIRECTIVES


def test_every_place_that_a_person_must_change_is_marked_and_no_other() -> None:
    marked = [line.split("#")[0].split()[0] for line in SITE.splitlines() if "HERE:" in line]
    assert marked == ["server", "ssl_certificate", "ssl_certificate_key"]


async def test_a_piece_of_an_answer_reaches_the_client_before_the_next_is_made(tmp_path: Path) -> None:
    arrived = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one")
        await asyncio.wait_for(arrived.wait(), 20)  # nginx that waits for more would wait for ever
        await response.write(b"two")
        return response

    application = web.Application()
    application.router.add_post("/v1/completions", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    nginx, issued = shipped_nginx(tmp_path, f"127.0.0.1:{runner.addresses[0][1]}")
    try:
        with nginx:
            ssl = aiohttp.TCPConnector(ssl=issued.trusting())
            async with (
                aiohttp.ClientSession(connector=ssl) as session,
                session.post(f"https://{HOST}:{nginx.port}/v1/completions") as streamed,
            ):
                assert await asyncio.wait_for(streamed.content.readexactly(3), 10) == b"one"
                arrived.set()
                assert await streamed.content.read() == b"two"
    finally:
        await runner.cleanup()
