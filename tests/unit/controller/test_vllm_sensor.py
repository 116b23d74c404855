"""Fetching vLLM's metrics: over whatever the session connects to, within a time, and patiently when blind."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from shutil import which

import aiohttp
import pytest
from aiohttp import web

from controller.clock import Now
from controller.engine.connections import vllm_session
from controller.sensors.vllm import VllmSensor
from controller.sensors.vllm.sensor import PATIENCE, PAUSE_S
from controller.settings import EngineSettings
from domain.errors import BadReading, EngineUnreachable, RecoverableError
from tests.programs import without

RUNNING = 'vllm:num_requests_running{engine="0"} 3\n'


class Engine:
    """Answers RUNNING; a test makes it fail and looks how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.status = 200
        self.headers: list[str | None] = []

    async def metrics(self, request: web.Request) -> web.Response:
        self.asked += 1
        self.headers.append(request.headers.get("Accept-Encoding"))
        return web.Response(text=RUNNING, status=self.status)

    @asynccontextmanager
    async def on(self, *, socket: Path | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
        app = web.Application()
        app.router.add_get("/metrics", self.metrics)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.UnixSite(runner, socket) if socket else web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        try:
            yield 0 if socket else runner.addresses[0][1]
        finally:
            await runner.cleanup()


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> Now:
        return Now(self.s, datetime.fromtimestamp(self.s, UTC))


class TestSensor:
    async def test_a_blind_daemon_asks_seldom_says_the_same_and_is_back_at_once_when_it_sees(self) -> None:
        engine, clock = Engine(), Clock()
        engine.status = 500
        said: set[str] = set()
        async with engine.on() as port, aiohttp.ClientSession() as session:
            sensor = VllmSensor(session, f"http://127.0.0.1:{port}", 5.0, clock)
            for _ in range(PATIENCE + 4):
                with pytest.raises(BadReading) as blind:
                    await sensor.read()
                said.add(str(blind.value))
                clock.s += 1
            assert engine.asked == PATIENCE
            assert len(said) == 1
            clock.s += PAUSE_S - 4
            with pytest.raises(BadReading):
                await sensor.read()
            assert engine.asked == PATIENCE + 1
            engine.status = 200
            clock.s += PAUSE_S
            assert (await sensor.read()).running == 3
            assert (await sensor.read()).running == 3
        assert engine.asked == PATIENCE + 3

    async def test_the_answer_is_asked_for_unpacked(self) -> None:
        engine = Engine()
        async with engine.on() as port, aiohttp.ClientSession() as session:
            await VllmSensor(session, f"http://127.0.0.1:{port}/", 5.0).read()
        assert engine.headers == ["identity"]

    async def test_a_refused_connection_names_the_address_and_a_remedy(self) -> None:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(EngineUnreachable, match=r"^cannot scrape http://127.0.0.1:9/metrics: .* engine.url"):
                await VllmSensor(session, "http://127.0.0.1:9", 5.0).read()

    async def test_a_server_that_is_silent_is_left_at_the_time_cap(self) -> None:
        async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await writer.wait_closed()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(EngineUnreachable, match=r"no answer within 0\.1 s"):
                await VllmSensor(session, url, 0.1).read()
        server.close()

    async def test_another_service_at_the_address_is_said_to_be_one(self) -> None:
        engine = Engine()
        engine.status = 404
        async with engine.on() as port, aiohttp.ClientSession() as session:
            with pytest.raises(BadReading, match=r"HTTP 404; engine\.url must name vLLM"):
                await VllmSensor(session, f"http://127.0.0.1:{port}", 5.0).read()

    async def test_a_unix_socket_is_scraped(self, tmp_path: Path) -> None:
        engine, socket = Engine(), tmp_path / "vllm.sock"
        async with engine.on(socket=socket), vllm_session(EngineSettings(unix_socket=socket)) as session:
            assert (await VllmSensor(session, EngineSettings().url, 5.0).read()).running == 3

    async def test_tls_is_scraped_with_the_operators_own_certificates_and_refused_without(self, tmp_path: Path) -> None:
        engine, (certificate, tls) = Engine(), _certificate(tmp_path)
        async with engine.on(tls=tls) as port:
            settings = EngineSettings(url=f"https://127.0.0.1:{port}", ca_file=certificate)
            async with vllm_session(settings) as session:
                assert (await VllmSensor(session, settings.url, 5.0).read()).running == 3
            async with vllm_session(EngineSettings(url=settings.url)) as session:
                with pytest.raises(RecoverableError, match="certificate"):
                    await VllmSensor(session, settings.url, 5.0).read()


def _certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for 127.0.0.1 that signs itself."""
    if which("openssl") is None:
        without("cannot make a certificate: there is no openssl on PATH; install it with apt-get install openssl")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=vllm", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context
