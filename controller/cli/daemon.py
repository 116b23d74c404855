"""Calling the running daemon over its REST API.

Belongs here: where it listens, the token, refusals as sentences. Never: what is asked of it.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.token_file import TokenUnreadable, read_token
from domain.errors import DaemonRefused, DaemonUnreachable, SettingsError

if TYPE_CHECKING:
    import aiohttp

    from controller.settings import ApiSettings

API = "/api/v1"
CALL_S = 60.0
"""A tick with an engine that hangs takes long."""
LONG_S = 900.0
"""A replay of some days takes minutes."""
CONNECT_S = 5.0
SILENT_S = 60.0
"""A stream that lives shows it four times a minute."""
LONG_LINE = 2**20
"""Of a stream: one event."""
UNIX = "unix:"
OVER_SOCKET = "http://localhost"
"""What a request names as host where the connection is a socket's."""

Config = Annotated[
    Path | None,
    typer.Option(envvar="VLLM_GOVERNOR_CONFIG", help="The daemon's settings: where it listens, and its token file."),
]
Url = Annotated[
    str | None,
    typer.Option(help="Where the daemon listens instead, as http://127.0.0.1:9178 or unix:/run/vllm-governor.sock."),
]
Token = Annotated[Path | None, typer.Option(help="The file with the token instead (api.token_file).")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object, as the REST API answers.")]
Query = Mapping[str, str | int | float | list[str]]


def span(since: datetime, until: datetime, node: str | None) -> dict[str, str | int | float | list[str]]:
    """A query for what lies between, of one node; None or empty: of the daemon's choice."""
    return {"since": since.isoformat(), "until": until.isoformat(), **({"node": node} if node else {})}


@dataclass(frozen=True, slots=True)
class Where:
    """What a command's options say of the daemon; None: as the settings at `config` say."""

    config: Path | None = None
    url: str | None = None
    token_file: Path | None = None


class Daemon:
    """The daemon that listens there. Every method raises SettingsError, DaemonRefused and DaemonUnreachable."""

    def __init__(self, where: Where) -> None:
        from controller import settings as settings_module

        api = settings_module.load(where.config).api
        self._own = where.token_file
        self._tokens = (api.token_file, api.read_token_file)
        self._socket = _socket(where.url, api)
        self.base = where.url.rstrip("/") if where.url is not None else _address(api)
        self._root = OVER_SOCKET if self._socket is not None else self.base
        self._pinned = api.cert_file if where.url is None and self._socket is None else None

    async def get(self, path: str, query: Query | None = None) -> Mapping[str, Any]:
        """What only reads: `path` goes after /api/v1/."""
        return await self.call("GET", path, query=query)

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Query | None = None,
        limit_s: float = CALL_S,
    ) -> Mapping[str, Any]:
        """One call; answers its document."""
        async with self._asked(method, path, body, query, limit_s) as answer:
            return await self._document(answer)

    @asynccontextmanager
    async def stream(self, path: str, query: Query, last_id: str | None) -> AsyncIterator[aiohttp.StreamReader]:
        """A stream of events, from the one after `last_id` on where it is named."""
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        async with self._asked("GET", path, None, query, None, headers) as answer:
            if answer.status != 200:
                await self._document(answer)
            yield answer.content

    @asynccontextmanager
    async def _asked(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Query | None,
        limit_s: float | None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        import aiohttp

        sent = {**(headers or {}), **self._authorization(changes=method != "GET")}
        silent_s = SILENT_S if limit_s is None else None
        timeout = aiohttp.ClientTimeout(total=limit_s, connect=CONNECT_S, sock_read=silent_s)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, connector=self._connector(), read_bufsize=LONG_LINE) as session,
                session.request(
                    method, f"{self._root}{API}/{path}", headers=sent, json=body, params=_written(query)
                ) as answer,
            ):
                yield answer
        except aiohttp.InvalidURL as error:
            raise SettingsError(f"cannot use --url {self.base}: it is no address like http://127.0.0.1:9178") from error
        except TimeoutError as error:
            reason = f"it did not answer within {limit_s or SILENT_S:g} s"
            raise self._unreachable(reason, "look into its log") from error
        except (aiohttp.ClientError, OSError) as error:
            remedy = "start it with `vllm-governor run`, or say where it is with --config or --url"
            raise self._unreachable(_reason(error), remedy) from error

    def _unreachable(self, reason: str, remedy: str) -> DaemonUnreachable:
        return DaemonUnreachable(f"cannot reach the daemon at {self.base}: {reason}; {remedy}")

    async def _document(self, answer: aiohttp.ClientResponse) -> Mapping[str, Any]:
        try:
            document = await answer.json(content_type=None)
        except ValueError:
            document = None
        if answer.status == 200 and isinstance(document, Mapping):
            return document
        said = document.get("detail") if isinstance(document, Mapping) else None
        if said is None:
            said = (
                f"cannot understand what answers at {self.base}: HTTP {answer.status} without a reason; it is no "
                "vllm-governor, or one of another version"
            )
        raise DaemonRefused(str(said))

    def _connector(self) -> aiohttp.BaseConnector:
        import aiohttp

        if self._socket is not None:
            return aiohttp.UnixConnector(str(self._socket))
        if self._pinned is None:
            return aiohttp.TCPConnector()
        return aiohttp.TCPConnector(ssl=_exactly(self._pinned))

    def _authorization(self, *, changes: bool) -> Mapping[str, str]:
        """A change needs a token, unless it goes over the socket; what reads is sent one where there is one."""
        if self._socket is not None:
            return {}
        admin, reading = self._tokens
        if self._own is not None or changes:
            return _bearer(_token(self._own or admin))
        for path in (admin, reading):
            if path is not None and os.access(path, os.R_OK):
                return _bearer(_token(path))
        return {}


def ask(
    where: Where,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    query: Query | None = None,
    limit_s: float = CALL_S,
) -> Mapping[str, Any]:
    """One call from a command that makes no other. `path` goes after /api/v1/."""
    return asyncio.run(Daemon(where).call(method, path, body, query, limit_s))


def _socket(url: str | None, api: ApiSettings) -> Path | None:
    """The Unix socket to go over: it asks for no token, so it goes first where this user may open it."""
    if url is not None:
        return Path(url.removeprefix(UNIX).removeprefix("//")) if url.startswith(UNIX) else None
    path = api.unix_socket
    if path is None or (api.port != 0 and not (path.is_socket() and os.access(path, os.R_OK | os.W_OK))):
        return None
    return path


def _address(api: ApiSettings) -> str:
    if api.unix_socket is not None and _socket(None, api) is not None:
        return f"{UNIX}{api.unix_socket}"
    if api.port == 0:
        raise SettingsError(
            "cannot call the daemon: it listens nowhere (api.port = 0); set api.port or api.unix_socket"
        )
    scheme = "http" if api.cert_file is None else "https"
    return f"{scheme}://{_host(api.host)}:{api.port}"


def _host(host: str) -> str:
    """An address to call for an address to listen at."""
    anywhere = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104
    host = anywhere.get(host, host)
    return f"[{host}]" if ":" in host else host


def _exactly(certificate: Path) -> aiohttp.Fingerprint:
    """The daemon's own certificate and no other: the address it is called at need not be the one it is made out for."""
    import hashlib

    import aiohttp

    try:
        text = certificate.read_text(encoding="ascii")
        begin = text.index("-----BEGIN CERTIFICATE-----")
        first = text[begin : text.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")]
        return aiohttp.Fingerprint(hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).digest())
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot use api.cert_file = {certificate}: {error}; it must hold a certificate") from error


def _written(query: Query | None) -> list[tuple[str, str]]:
    """A list is its name several times."""
    pairs: list[tuple[str, str]] = []
    for name, value in (query or {}).items():
        pairs += [(name, one) for one in value] if isinstance(value, list) else [(name, str(value))]
    return pairs


def _reason(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ServerFingerprintMismatch):
        return "it shows another certificate than api.cert_file"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    strerror = getattr(cause, "strerror", None)
    if isinstance(cause, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(cause, FileNotFoundError):
        return "there is no such socket"
    return str(strerror or error) or type(error).__name__


def _bearer(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _token(path: Path | None) -> str:
    if path is None:
        raise SettingsError(
            "cannot call the daemon: no api.token_file is set; name the daemon's settings with --config, set it there, "
            "or use --token-file"
        )
    try:
        return read_token(path)
    except TokenUnreadable as error:
        raise SettingsError(f"cannot read the token file {path}: {error}") from error
