"""One request: redirects, cookies, proxies; over real HTTP, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import encode_basic_auth

from alerts.delivery import Deliveries
from alerts.posting import AGENT
from alerts.receivers import Delivered, Retry
from domain.incident import DeliveryStatus
from tests.listener import Kept, Listener, listening, settings, started, told
from tests.virtual_time import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def end(clock: VirtualClock) -> AsyncIterator[Listener]:
    async with listening(clock) as listener:
        yield listener


async def test_a_redirect_is_not_followed_and_no_cookie_is_kept(clock: VirtualClock, end: Listener) -> None:
    outbox = Kept()
    end.answer = lambda uid: (307, {"Location": end.url, "Set-Cookie": "a=b"}) if uid == "n-1" else (200, {})
    async with started(Deliveries(settings(ops={"url": end.url}), outbox, clock)) as deliveries:
        deliveries.put([told(1), told(2)])
        await clock.settle()
    assert [uid for _, uid in end.got] == ["n-1", "n-2"]
    assert outbox.kept["n-1"].status is DeliveryStatus.FAILED
    assert "Cookie" not in end.headers
    assert end.headers["User-Agent"] == AGENT


async def test_a_proxy_of_the_environment_is_used_but_not_for_what_it_leaves_out(
    clock: VirtualClock, end: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", end.url.removesuffix("/hook"))
    async with started(Deliveries(settings(ops={"url": "http://alerts.invalid/hook"}), Kept(), clock)) as deliveries:
        assert await deliveries.attempt(told(1)) == Delivered()
        monkeypatch.setenv("no_proxy", "alerts.invalid")
        assert isinstance(await deliveries.attempt(told(1)), Retry)


@pytest.mark.parametrize(
    ("proxy", "says"),
    [
        ("http://ops:pr0xyword@{}", "url='http://127.0.0.1:"),
        ("ops:pr0xyword@{}", "https_proxy of the environment is no address"),
        ("http://ops:pr0xyword@{}99999", "https_proxy of the environment is no address"),
        ("socks5://ops:pr0xyword@{}", "https_proxy of the environment is no address"),
    ],
)
async def test_a_proxys_password_is_in_no_text(
    clock: VirtualClock, end: Listener, monkeypatch: pytest.MonkeyPatch, proxy: str, says: str
) -> None:
    """The other end is no proxy for TLS: it refuses to connect on."""
    monkeypatch.setenv("https_proxy", proxy.format(end.url.removeprefix("http://").removesuffix("/hook")))
    async with started(Deliveries(settings(ops={"url": "https://alerts.invalid/hook"}), Kept(), clock)) as deliveries:
        answer = await deliveries.attempt(told(1))
    assert isinstance(answer, Retry)
    assert says in answer.reason
    assert "pr0xyword" not in answer.reason


async def test_a_proxy_is_given_the_name_and_password_of_its_address(
    clock: VirtualClock, end: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", end.url.removesuffix("/hook").replace("//", "//ops:w%3Aord@"))
    async with started(Deliveries(settings(ops={"url": "http://alerts.invalid/hook"}), Kept(), clock)) as deliveries:
        assert await deliveries.attempt(told(1)) == Delivered()
    assert end.headers["Proxy-Authorization"] == encode_basic_auth("ops", "w:ord")
