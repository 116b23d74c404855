"""The commands' client: where the daemon is, the token, refusals and silence as sentences and exit codes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from controller.__main__ import main
from controller.cli.daemon import Daemon, Where
from controller.cli.sse import Message, messages
from domain.errors import DaemonRefused, DaemonUnreachable, SettingsError

PROBLEM = {"detail": "cannot set max_num_seqs: 9999 is not within 1 and 64; send a value within them"}


async def _echo(request: web.Request) -> web.Response:
    said = {"token": request.headers.get("Authorization"), "query": [*request.query.items()]}
    return web.json_response(said)


async def _refuse(_request: web.Request) -> web.Response:
    return web.json_response(PROBLEM, status=422, content_type="application/problem+json")


async def _strange(_request: web.Request) -> web.Response:
    return web.Response(text="<html>", status=502)


def application() -> web.Application:
    app = web.Application()
    app.router.add_get("/api/v1/echo", _echo)
    app.router.add_post("/api/v1/echo", _echo)
    app.router.add_patch("/api/v1/knobs", _refuse)
    app.router.add_get("/api/v1/strange", _strange)
    return app


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    server = TestServer(application())
    await server.start_server()
    yield server
    await server.close()


def settings(folder: Path, text: str) -> Where:
    path = folder / "governor.toml"
    path.write_text(text)
    return Where(path)


async def test_it_finds_the_daemon_and_its_token_in_the_settings(server: TestServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    daemon = Daemon(settings(tmp_path, f'[api]\nport = {server.port}\ntoken_file = "{token}"\n'))
    assert (await daemon.call("POST", "echo"))["token"] == "Bearer secret"
    assert (await daemon.get("echo", {"knob": ["a", "b"], "limit": 3}))["query"] == [
        ["knob", "a"],
        ["knob", "b"],
        ["limit", "3"],
    ]


async def test_what_only_reads_goes_without_a_token_where_there_is_none(server: TestServer, tmp_path: Path) -> None:
    where = settings(tmp_path, f"[api]\nport = {server.port}\n")
    assert (await Daemon(where).get("echo"))["token"] is None
    with pytest.raises(SettingsError, match=r"no api\.token_file is set; .* --config, .* --token-file"):
        await Daemon(where).call("POST", "echo")


async def test_a_read_token_is_enough_to_read(server: TestServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("may-read")
    where = settings(tmp_path, f'[api]\nport = {server.port}\nread_token_file = "{token}"\n')
    assert (await Daemon(where).get("echo"))["token"] == "Bearer may-read"


@pytest.mark.parametrize("named", [True, False])
async def test_over_the_unix_socket_no_token_is_asked_for(tmp_path: Path, named: bool) -> None:
    path = tmp_path / "governor.sock"
    runner = web.AppRunner(application())
    await runner.setup()
    await web.UnixSite(runner, str(path)).start()
    where = Where(url=f"unix:{path}") if named else settings(tmp_path, f'[api]\nport = 0\nunix_socket = "{path}"\n')
    assert (await Daemon(where).call("POST", "echo"))["token"] is None
    await runner.cleanup()


async def test_a_refusal_is_told_in_the_daemons_words(server: TestServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    daemon = Daemon(Where(url=str(server.make_url("")), token_file=token))
    with pytest.raises(DaemonRefused, match="9999 is not within 1 and 64") as refused:
        await daemon.call("PATCH", "knobs", {"values": {"max_num_seqs": 9999}})
    assert str(refused.value) == PROBLEM["detail"]


async def test_what_is_no_daemon_is_said_to_be_none(server: TestServer) -> None:
    with pytest.raises(DaemonRefused, match="HTTP 502 without a reason; it is no vllm-governor"):
        await Daemon(Where(url=str(server.make_url("")))).get("strange")


async def test_a_daemon_that_is_not_there_is_named_with_the_remedy() -> None:
    url = f"http://127.0.0.1:{unused_port()}"
    with pytest.raises(DaemonUnreachable, match=f"cannot reach the daemon at {url}: nothing listens there; start it"):
        await Daemon(Where(url=url)).get("status")


async def test_a_socket_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnreachable, match="there is no such socket"):
        await Daemon(Where(url=f"unix:{tmp_path}/none.sock")).get("status")


@pytest.mark.parametrize("text", ["[api]\nport = 0\n", "[api]\nport = 1\nhorst = 2\n"])
async def test_settings_that_lead_nowhere_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError):
        Daemon(settings(tmp_path, text))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["status", "--url", "http://127.0.0.1:9"], 3, "cannot reach the daemon at http://127.0.0.1:9"),
        (["status", "--url", "what is this"], 2, "cannot use --url"),
        (["set", "max_num_seqs", "--url", "http://127.0.0.1:9"], 2, "write KNOB=VALUE"),
        (["set", "max_num_seqs=many", "--url", "http://127.0.0.1:9"], 2, "neither a number nor"),
        (["set", "max_num_seqs=8", "--for", "long", "--url", "http://127.0.0.1:9"], 2, "cannot use --for long"),
        (["signals", "runing"], 2, "did you mean running?"),
        (["policies", "set", "batch_resize", "floor"], 2, "write KEY=VALUE"),
        (["cost", "--per-kwh", "1"], 2, "read the history itself with --db"),
        (["no-such-command"], 2, "No such command"),
    ],
)
def test_exit_codes_tell_the_users_fault_from_the_daemons_absence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["vllm-governor", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert words in " ".join(capsys.readouterr().err.split())


async def test_a_stream_of_events_is_read_message_by_message() -> None:
    async def lines() -> AsyncIterator[bytes]:
        for line in ("retry: 2000", "id: a-1", "", ": alive", "", "id: a-2", "event: tick", 'data: {"n": 1}', ""):
            yield f"{line}\n".encode()

    assert [one async for one in messages(lines())] == [
        Message("a-1", "message", ""),
        Message("a-2", "tick", '{"n": 1}'),
    ]
