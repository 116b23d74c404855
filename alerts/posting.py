"""One HTTP request to a receiver, and its answer.

Belongs here: the client session, the deadline, proxies, how much of an answer is read. Never: what an answer means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from alerts.receivers import Request

MOST_BYTES = 65_536
"""Of an answer; what matters in one stands at its beginning."""
AGENT = "vllm-governor"


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def new_session() -> aiohttp.ClientSession:
    """For all receivers. It keeps no cookies, so that none learns what another set."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), headers={"User-Agent": AGENT})


async def post(session: aiohttp.ClientSession, request: Request, timeout_s: float) -> Reply:
    """Raises aiohttp.ClientError, OSError and ValueError; TimeoutError when there is no whole answer by then."""
    proxy = _proxy(request.url)
    tunnelled = urlsplit(request.url).scheme == "https"  # the receiver does not see what the proxy is told
    try:
        async with (
            asyncio.timeout(timeout_s),
            session.request(
                request.method,
                request.url,
                data=request.body,
                headers=request.headers if tunnelled else {**request.headers, **proxy.headers},
                proxy=proxy.url,
                proxy_headers=proxy.headers,
                allow_redirects=False,  # they would carry what is secret elsewhere
                timeout=aiohttp.ClientTimeout(total=None),
            ) as answer,
        ):
            return Reply(answer.status, answer.headers, await _beginning(answer.content))
    except TimeoutError as error:
        raise TimeoutError(f"no answer within {timeout_s:g} s") from error


async def _beginning(content: aiohttp.StreamReader) -> bytes:
    body = b""
    async for piece in content.iter_any():
        body += piece
        if len(body) >= MOST_BYTES:
            break
    return body[:MOST_BYTES]


class _Proxy(NamedTuple):
    """Its address without name and password: aiohttp's errors show the address."""

    url: str | None = None
    headers: Mapping[str, str] = MappingProxyType({})


def _proxy(url: str) -> _Proxy:
    """That of the environment (`HTTPS_PROXY`, `NO_PROXY`), if any. aiohttp's own way would look for a password in
    ~/.netrc as well. Raises OSError where what is set there is no address; it is not shown.
    """
    parts = urlsplit(url)
    told = getproxies().get(parts.scheme)
    if told is None or proxy_bypass(parts.hostname or ""):
        return _Proxy()
    try:
        proxy = URL(told)
        if proxy.host is None or proxy.scheme not in ("http", "https"):
            raise ValueError("no host")
    except ValueError:
        name = f"{parts.scheme}_proxy"
        raise OSError(f"{name} of the environment is no address; set it like http://proxy.example:3128") from None
    if proxy.user is None:
        return _Proxy(str(proxy))
    who = aiohttp.encode_basic_auth(proxy.user, proxy.password or "")
    return _Proxy(str(proxy.with_user(None)), {"Proxy-Authorization": who})
