"""Who may call which route: every one with no, a wrong, the read and the admin token, and from where."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from controller.api.access import Gate
from controller.api.peers import Peer, from_here, names_this_machine, peer_of
from controller.api.problem import Problem
from controller.api.routes import Access, Route
from controller.settings import ApiSettings
from tests.api_rig import ADMIN, READ, ApiRig, serving

TOKENS = {"none": None, "wrong": "another-token", "read": READ, "admin": ADMIN}
ALLOWED = {
    Access.OPEN: {"none", "wrong", "read", "admin"},
    Access.READ: {"read", "admin"},
    Access.ADMIN: {"admin"},
}
ASKED = {"/api/v1/events": {"follow": "false"}}
NAMES = {"name": "batch_resize", "id": "1", "path": "no-such-file"}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiRig]:
    async with serving(tmp_path, read_token=True, requests_per_s=10_000) as rig:
        yield rig


def path_of(route: Route) -> str:
    """The route with a name in place of each part."""
    return re.sub(r"\{(\w+)(:[^{}]*)?\}", lambda found: NAMES[found[1]], route.path)


async def test_every_route_is_open_to_the_tokens_that_its_access_names_and_to_no_other(api: ApiRig) -> None:
    wrong = []
    for route in api.api.routes:
        for name, token in TOKENS.items():
            # A body that no route takes: what is let in goes no further than reading it.
            body = {"json": {"no such key": 1}} if route.body is not None else {}
            answer = await api.ask(route.method, path_of(route), token, params=ASKED.get(route.path), **body)
            let_in = answer.status not in (401, 403)
            if let_in != (name in ALLOWED[route.access]):
                wrong.append((route.method, route.path, name, answer.status))
            if answer.status in (401, 403):
                assert answer.said["status"] == answer.status
                assert ("WWW-Authenticate" in answer.headers) is (answer.status == 401)
    assert wrong == []
    assert len(api.api.routes) > 40


async def test_every_route_that_changes_something_is_admins_and_no_other_is(api: ApiRig) -> None:
    assert {route.path for route in api.api.routes if route.changes and route.access is not Access.ADMIN} == set()
    assert {route.path for route in api.api.routes if not route.changes and route.access is Access.ADMIN} == set()
    opened = {route.path for route in api.api.routes if route.access is Access.OPEN}
    pages = {"/", "/static/{path:.+}"}
    assert opened == {*pages, "/api/v1/openapi.json", "/healthz", "/readyz", "/metrics"}


async def test_without_a_read_token_this_machine_reads_openly_and_a_wrong_token_is_still_wrong(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        assert (await api.ask("GET", "/api/v1/status", None)).status == 200
        assert (await api.ask("GET", "/api/v1/status", "another")).status == 401
        assert (await api.ask("GET", "/api/v1/status", ADMIN)).status == 200


async def test_without_any_token_reads_are_open_here_and_changes_are_refused_with_the_remedy(tmp_path: Path) -> None:
    async with serving(tmp_path, token_file=None) as api:
        assert (await api.ask("GET", "/api/v1/status", None)).status == 200
        refused = await api.ask("POST", "/api/v1/rollback", ADMIN)
        assert refused.status == 403
        assert refused.said["detail"] == (
            "cannot take this call: no token is configured; name a file with one in api.token_file, or call over "
            "api.unix_socket"
        )
        assert api.rig.loop.rollback[0] is None


async def test_a_token_file_that_holds_no_token_lets_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "broken"
    async with serving(tmp_path, token_file=path) as api:
        for content in (None, b"", b" \n", b"\xff\xfe"):
            if content is not None:
                path.write_bytes(content)
            refused = await api.ask("POST", "/api/v1/rollback", "")
            assert refused.status == 403
            assert str(path) in refused.said["reason"]


async def test_a_new_token_counts_at_once(api: ApiRig, tmp_path: Path) -> None:
    (tmp_path / "admin").write_text("another")
    assert (await api.ask("PUT", "/api/v1/mode", ADMIN, json={"mode": "observe"})).status == 401
    assert (await api.ask("PUT", "/api/v1/mode", "another", json={"mode": "observe"})).status == 200


async def test_a_token_of_bytes_that_are_no_text_is_the_wrong_one(api: ApiRig) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.api.port)
    writer.write(b"POST /api/v1/rollback HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \xff\xfe\r\n\r\n")
    assert b" 401 " in await reader.readline()
    writer.close()


async def test_a_page_of_elsewhere_whose_name_leads_here_reads_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        for host, status in (("evil.example", 403), ("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:9178", 200)):
            assert (await api.ask("GET", "/api/v1/status", None, headers={"Host": host})).status == status
        assert (await api.ask("GET", "/api/v1/status", ADMIN, headers={"Host": "evil.example"})).status == 200


async def test_what_a_proxy_passes_on_is_not_from_here(tmp_path: Path) -> None:
    async with serving(tmp_path, allow_plain=True) as api:
        passed_on = {"X-Forwarded-For": "203.0.113.7"}
        assert (await api.ask("GET", "/api/v1/status", None, headers=passed_on)).status == 401
        assert (await api.ask("GET", "/api/v1/status", ADMIN, headers=passed_on)).status == 200


def request(token: str | None = ADMIN) -> web.Request:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return make_mocked_request("GET", "/", headers=headers)


def far(*, secure: bool) -> Peer:
    return Peer("192.0.2.7", "192.0.2.7", here=False, unix=False, secure=secure)


@pytest.mark.parametrize("access", [Access.READ, Access.ADMIN])
@pytest.mark.parametrize(
    ("secure", "allowed", "enters"), [(False, False, False), (True, False, True), (False, True, True)]
)
def test_from_another_machine_a_token_is_taken_over_tls_alone_unless_plain_is_allowed(
    tmp_path: Path, access: Access, secure: bool, allowed: bool, enters: bool
) -> None:
    (tmp_path / "admin").write_text(ADMIN)
    gate = Gate(ApiSettings(token_file=tmp_path / "admin", allow_plain=allowed))
    if enters:
        assert gate.admit(request(), far(secure=secure), access) == "the admin token from 192.0.2.7"
    else:
        with pytest.raises(Problem, match=r"a connection that everybody can read; set api\.cert_file"):
            gate.admit(request(), far(secure=secure), access)


def test_another_machine_reads_nothing_without_a_token(tmp_path: Path) -> None:
    (tmp_path / "admin").write_text(ADMIN)
    for settings, status in ((ApiSettings(), 403), (ApiSettings(token_file=tmp_path / "admin"), 401)):
        with pytest.raises(Problem) as refused:
            Gate(settings).admit(request(None), far(secure=True), Access.READ)
        assert refused.value.status == status


@pytest.mark.parametrize(
    ("remote", "here"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        (None, False),
        ("", False),
    ],
)
def test_only_loopback_addresses_are_this_machine(remote: str | None, here: bool) -> None:
    assert from_here(remote) is here


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("localhost", True),
        ("localhost:9178", True),
        ("LOCALHOST.", True),
        ("governor.localhost", True),
        ("127.0.0.1:9178", True),
        ("[::1]", True),
        ("[::1]:9178", True),
        ("192.168.1.5:9178", True),
        ("evil.example:9178", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_a_host_is_this_machines_as_localhost_or_an_address(host: str, ours: bool) -> None:
    assert names_this_machine(host) is ours


def test_the_addresses_of_one_ipv6_subscriber_count_as_one_peer() -> None:
    def bucket(remote: str) -> str:
        return peer_of(make_mocked_request("GET", "/").clone(remote=remote)).bucket

    assert bucket("2001:db8::1") == bucket("2001:db8::2:1") != bucket("2001:db8:1::1")
    assert bucket("::ffff:192.0.2.1") == bucket("192.0.2.1") != bucket("192.0.2.2")
