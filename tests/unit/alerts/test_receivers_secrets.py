"""Addresses, secrets and tokens: read anew, and in no text that comes out."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from alerts.receivers import Delivered
from domain.errors import CannotSend
from tests.told import KINDS, NOON, OtherEnd, notification, receiver

FILES = {
    "webhook": ("secret_file", "token_file"),
    "alertmanager": ("token_file",),
    "slack": (),
    "dingtalk": ("secret_file",),
    "feishu": ("secret_file",),
    "wecom": (),
}


@pytest.fixture
async def end() -> AsyncIterator[OtherEnd]:
    end = OtherEnd()
    await end.start()
    yield end
    await end.server.close()


async def test_a_new_secret_needs_no_restart(end: OtherEnd, tmp_path: Path) -> None:
    (tmp_path / "url").write_text(f"{end.url}/old")
    who = receiver("webhook", url_file=tmp_path / "url")
    await end.told(who)
    (tmp_path / "url").write_text(f"{end.url}/new")
    await end.told(who)
    assert end.paths == ["/old", "/new"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [200, 302, 400, 429, 503])
async def test_no_secret_is_in_any_text_that_comes_out(
    end: OtherEnd, kind: str, status: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The other end answers with all that it got: address, headers and body."""
    secrets = ("k3y-in-the-path-0001", "t0ken-in-the-query", "SECs3cret0001", "b3arer-0001")
    end.status, end.echo = status, True
    (tmp_path / "url").write_text(f"{end.url}/hook/{secrets[0]}?access_token={secrets[1]}&to=ops\n")
    (tmp_path / "secret").write_text(secrets[2])
    (tmp_path / "token").write_text(secrets[3])
    files: dict[str, Any] = {key: tmp_path / key.removesuffix("_file") for key in ("url_file", *FILES[kind])}
    who = receiver(kind, **files)
    answer = await end.told(who)
    assert isinstance(answer, Delivered) == (status == 200 and kind in ("webhook", "alertmanager"))
    request = who.request(notification(), NOON)
    failed = who.failed(ValueError(f"bad address {request.url} with {dict(request.headers)}"))
    said = " ".join(map(repr, (answer, request, who, failed))) + " ".join(map(str, (answer, request, who)))
    assert [secret for secret in secrets if secret in said + caplog.text] == []


@pytest.mark.parametrize("who", ["ops:passw0rd-0001", "t0ken-in-place-of-a-name"])
def test_what_an_address_authenticates_with_is_blotted_as_http_sends_it(who: str) -> None:
    by = receiver("webhook", url=f"http://{who}@h/hook")
    by.request(notification(), NOON)
    name, _, password = who.partition(":")
    sent = base64.b64encode(f"{name}:{password}".encode()).decode()
    said = repr(by.judge(400, {}, f"Authorization: Basic {sent}, which is {password or name}".encode()))
    assert "Authorization: Basic ***, which is ***" in said


def test_a_secret_that_the_cut_would_halve_is_blotted_first(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("b3arer-0001-long")
    who = receiver("webhook", url="http://h/", token_file=tmp_path / "token")
    who.request(notification(), NOON)
    answer = who.judge(400, {}, b"x" * 190 + b" b3arer-0001-long")
    assert "b3arer" not in repr(answer)


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "No such file"), (b"", "is empty"), (b"\xff\xfe", "is not text"), (b"two words\n", "more than one word")],
)
def test_a_secret_that_cannot_be_read_is_named_by_its_file_and_not_shown(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    who = receiver("webhook", url="http://h/", secret_file=path)
    with pytest.raises(CannotSend, match=why) as raised:
        who.request(notification(), NOON)
    assert f"alerts.receivers.ops.secret_file = {path}" in str(raised.value)
    assert "two words" not in str(raised.value)


@pytest.mark.parametrize("url", ["ftp://s3cret0001", "s3cret0001", "http://[s3cret0001", "http://h:70000/s3cret0001"])
def test_an_address_that_is_none_is_not_shown_either(tmp_path: Path, url: str) -> None:
    (tmp_path / "url").write_text(url)
    who = receiver("slack", url_file=tmp_path / "url")
    with pytest.raises(CannotSend, match="url_file is no address") as raised:
        who.request(notification(), NOON)
    assert "s3cret" not in str(raised.value)
