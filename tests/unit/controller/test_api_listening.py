"""Where the daemon listens, and what it says when it cannot."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import ValidationError

from bench.ports import free_port
from controller.api.models.present import HealthOut
from controller.api.routes import Access, Call, Route
from controller.api.server import ApiServer
from controller.app import serve
from controller.settings import ApiSettings, Settings
from domain.errors import CannotListen
from tests.waiting import PATIENCE_S, until

TLS = Path(__file__).parents[2] / "data" / "tls"
CERT, KEY = TLS / "cert.pem", TLS / "key.pem"


async def _who(call: Call[None, None]) -> HealthOut:
    return HealthOut(version=call.who.actor)


ROUTES = [
    Route("GET", "/open", Access.OPEN, _who, "", HealthOut),
    Route("GET", "/read", Access.READ, _who, "", HealthOut),
    Route("POST", "/change", Access.ADMIN, _who, "", HealthOut),
]


@asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[ApiServer]:
    api = ApiServer(ApiSettings.model_validate({"port": free_port(), **settings}), ROUTES)
    await api.start()
    try:
        yield api
    finally:
        await api.stop()


async def status(url: str, method: str = "GET", **session: Any) -> tuple[int, str]:
    """The status, and whom the daemon took the caller for."""
    async with aiohttp.ClientSession(**session) as client, client.request(method, url) as answer:
        return answer.status, str((await answer.json()).get("version"))


async def test_port_0_listens_nowhere_and_can_be_stopped() -> None:
    async with served(port=0) as api:
        assert api.port is None
        await api.stop()


async def test_a_stopped_listener_gives_its_port_back() -> None:
    async with served() as api:
        port = api.port
    async with served(port=port):
        pass


async def test_a_port_that_is_taken_is_said_with_the_remedy() -> None:
    async with served() as api:
        with pytest.raises(CannotListen) as caught:
            async with served(port=api.port):
                pass
        assert str(caught.value) == (
            f"cannot listen on 127.0.0.1:{api.port}: another program, maybe another vllm-governor, listens there; "
            "set api.port to a free port (api.port = 0 serves nothing)"
        )


async def test_an_address_of_another_machine_is_said_with_the_remedy() -> None:
    with pytest.raises(CannotListen, match=r"^cannot listen on 192\.0\.2\.1:\d+: this machine has no such address; "):
        async with served(host="192.0.2.1"):
            pass


async def test_a_daemon_that_cannot_listen_does_not_start(tmp_path: Path) -> None:
    async with served() as api:
        values = {"api": {"port": api.port}, "store": {"url": str(tmp_path / "h.db")}}
        settings = Settings.model_validate({**values, "engine": {"url": "http://127.0.0.1:9"}})
        with pytest.raises(CannotListen, match=r"^cannot listen on "):
            async with asyncio.timeout(PATIENCE_S):
                await serve(settings, None)


async def test_whoever_may_open_the_unix_socket_may_do_everything(tmp_path: Path) -> None:
    path = tmp_path / "governor.sock"
    async with served(unix_socket=path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        for route in ROUTES:
            connector = aiohttp.UnixConnector(path=str(path))
            answered, who = await status(f"http://governor{route.path}", route.method, connector=connector)
            assert (answered, who) == (200, f"uid {os.getuid()} at the Unix socket")
    assert not path.exists()


async def test_the_socket_alone_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "governor.sock"
    async with served(port=0, unix_socket=path):
        connector = aiohttp.UnixConnector(path=str(path))
        assert (await status("http://governor/open", connector=connector))[0] == 200


async def test_a_socket_that_a_dead_daemon_left_is_taken_over_and_a_living_ones_is_not(tmp_path: Path) -> None:
    path = tmp_path / "governor.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with served(unix_socket=path):
        with pytest.raises(CannotListen, match="another program, maybe another vllm-governor, listens there"):
            async with served(unix_socket=path):
                pass
        connector = aiohttp.UnixConnector(path=str(path))
        assert (await status("http://governor/open", connector=connector))[0] == 200


async def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a-file"
    path.write_text("kept")
    with pytest.raises(CannotListen, match=r"there is something else; set api\.unix_socket to another path"):
        async with served(unix_socket=path):
            pass
    assert path.read_text() == "kept"


@pytest.mark.parametrize("name", ["no-such-folder/s", "x" * 120])
async def test_a_socket_that_cannot_be_made_is_said_with_the_remedy(tmp_path: Path, name: str) -> None:
    with pytest.raises(CannotListen, match=r"^cannot listen on the Unix socket .*; set api.unix_socket to a path of "):
        async with served(unix_socket=tmp_path / name):
            pass


async def test_with_a_certificate_the_port_speaks_https_alone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token")
    async with served(cert_file=CERT, key_file=KEY, token_file=tmp_path / "token") as api:
        context = ssl.create_default_context(cafile=str(CERT))
        headers = {"Authorization": "Bearer a-token"}
        connector = aiohttp.TCPConnector(ssl=context)
        url = f"https://localhost:{api.port}/change"
        answered = await status(url, "POST", connector=connector, headers=headers)
        assert answered == (200, "the admin token from 127.0.0.1")
        with pytest.raises(aiohttp.ClientError):
            await status(f"http://localhost:{api.port}/open")


@pytest.mark.parametrize(("cert", "key"), [(CERT, CERT), (KEY, KEY), (CERT, TLS / "no-such-file.pem")])
async def test_a_certificate_that_cannot_be_used_is_said_with_the_remedy(cert: Path, key: Path) -> None:
    with pytest.raises(CannotListen, match=r"^cannot serve https with .*; put api.cert_file and api.key_file right"):
        async with served(cert_file=cert, key_file=key):
            pass


def test_a_certificate_without_its_key_stops_the_start() -> None:
    with pytest.raises(ValidationError, match="cert_file and key_file must be set together"):
        ApiSettings(cert_file=CERT)


async def test_who_comes_when_all_connections_are_taken_is_told_so_and_the_socket_still_answers(tmp_path: Path) -> None:
    path = tmp_path / "governor.sock"
    async with served(connections=8, unix_socket=path) as api:
        held = [await asyncio.open_connection("127.0.0.1", api.port) for _ in range(8)]
        await asyncio.sleep(0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
        assert b"503" in await reader.readline()
        assert b"api.connections are all taken" in await reader.read()
        writer.close()
        connector = aiohttp.UnixConnector(path=str(path))
        assert (await status("http://governor/open", connector=connector))[0] == 200
        for _, one in held:
            one.close()

        async def has_room() -> bool:
            try:
                async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{api.port}/open") as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

        await until("there is room again", has_room)


async def test_a_connection_that_never_asks_to_the_end_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.api.server.IDLE_S", 0.2)
    async with served() as api:
        reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
        writer.write(b"GET /open HTTP/1.1\r\nHost:")
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()
