"""Closed-loop load on one vLLM server: N clients, each sends its next request when the last one is answered.

Sending, timing and counting belong here. What is sent is `bench.prompts`; judging the numbers never belongs here.
"""

import asyncio
import ipaddress
import math
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import aiohttp

from bench.prompts import PromptMix, PromptSource

#: Records kept for windowed figures; totals and causes of failure are never dropped.
KEPT_RECORDS = 200_000
#: A failed client waits this long, so that a dead server is not hammered.
PAUSE_AFTER_FAILURE_S = 0.25
#: Shorter than uvicorn's 5 s: a load that stood still for a while must not send on a connection that is being closed.
KEEP_ALIVE_S = 4.0
CANCELLED = "unanswered when the load stopped"


class LoadError(Exception):
    """The load cannot be driven at all. A single failed request is a record, not this."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One finished request. Times are `time.monotonic()` seconds; `status` is None when no HTTP answer came."""

    start_s: float
    end_s: float
    ok: bool
    status: int | None
    kind: str
    cause: str | None
    retry_after: str | None = None
    """The header Retry-After of the answer."""


@dataclass(frozen=True, slots=True)
class LoadStats:
    """What ended inside a window: `rps` counts good answers only, quantiles are of good answers (None without any)."""

    window_s: float
    ok: int
    failed: int
    rps: float
    p50_s: float | None
    p99_s: float | None
    causes: dict[str, int]


def check_target(url: str, *, allow_remote: bool = False) -> str:
    """Returns `url` without a trailing slash; raises LoadError unless it is loopback or remote is allowed."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise LoadError(f"cannot send load to {url!r}: it is not an address; give one like http://127.0.0.1:8000")
    if not allow_remote and not _is_loopback(parts.hostname):
        raise LoadError(
            f"cannot send load to {url!r}: {parts.hostname} is not a loopback address and a load may hurt a shared "
            "server; run this beside the server or allow remote targets explicitly"
        )
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def summarise(records: list[RequestRecord], window_s: float) -> LoadStats:
    """Figures of the given records over `window_s` seconds. Quantiles by nearest rank."""
    good = sorted(record.end_s - record.start_s for record in records if record.ok)
    causes = Counter(record.cause or "unknown" for record in records if not record.ok)
    return LoadStats(
        window_s=window_s,
        ok=len(good),
        failed=len(records) - len(good),
        rps=len(good) / window_s if window_s > 0 else 0.0,
        p50_s=_rank(good, 0.50),
        p99_s=_rank(good, 0.99),
        causes=dict(causes),
    )


def _rank(ordered: list[float], q: float) -> float | None:
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)] if ordered else None


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The shape of a load. `limit_s` bounds the whole run, `request_timeout_s` one request.

    Two loads of one `seed` on one server send the same prompts, which its prefix cache then knows: give the second
    another seed. With 32 tokens an answer the engine, not the API process, is the bottleneck of a small machine.
    """

    clients: int = 64
    max_tokens: int = 32
    seed: int = 1
    mix: PromptMix = field(default_factory=PromptMix)
    limit_s: float = 3600.0
    request_timeout_s: float = 60.0
    allow_remote: bool = False
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What `/v1/models` says of the first model. `max_model_len` is None where the server does not say."""

    name: str
    max_model_len: int | None


async def served_model(url: str, *, headers: tuple[tuple[str, str], ...] = (), timeout_s: float = 10.0) -> ServedModel:
    """Asks the server what it serves; raises LoadError in one sentence when it does not answer with a model."""
    try:
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=list(headers)) as session,
            session.get(f"{url.rstrip('/')}/v1/models") as answer,
        ):
            answer.raise_for_status()
            first = (await answer.json())["data"][0]
            return ServedModel(str(first["id"]), first.get("max_model_len"))
    except (aiohttp.ClientError, TimeoutError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise LoadError(
            f"cannot learn the model that {url} serves: {_words(error)}; check that vLLM is up at that address"
        ) from error


class Load:
    """A running load. `async with Load(url, "tiny") as load:` starts it, and at the end what is in flight finishes."""

    def __init__(
        self,
        url: str,
        model: str,
        options: LoadOptions | None = None,
        *,
        on_record: Callable[[RequestRecord], None] | None = None,
    ) -> None:
        self.options = options or LoadOptions()
        self.url = check_target(url, allow_remote=self.options.allow_remote)
        if self.options.clients < 1:
            raise LoadError(f"cannot drive a load with {self.options.clients} clients: give at least 1")
        self.ok_total = 0
        self.failed_total = 0
        self.causes: Counter[str] = Counter()
        self.in_flight = 0
        self._on_record = on_record
        self._records: deque[RequestRecord] = deque(maxlen=KEPT_RECORDS)
        self._source = PromptSource(
            self.options.mix, model=model, max_tokens=self.options.max_tokens, seed=self.options.seed
        )
        self._stopping = asyncio.Event()
        self._session: aiohttp.ClientSession | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def running(self) -> bool:
        """Whether clients still send."""
        return not self._stopping.is_set() and any(not task.done() for task in self._tasks)

    async def start(self) -> None:
        """Starts the clients; they end by themselves after `limit_s`."""
        if self._tasks:
            raise LoadError("cannot start a load twice: make a new one")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.options.clients, keepalive_timeout=KEEP_ALIVE_S),
            timeout=aiohttp.ClientTimeout(total=self.options.request_timeout_s),
            headers=[("Content-Type", "application/json"), *self.options.headers],
        )
        until_s = time.monotonic() + self.options.limit_s
        self._tasks = [
            asyncio.create_task(self._client(self._session, until_s), name=f"load-client-{number}")
            for number in range(self.options.clients)
        ]

    async def stop(self, drain_s: float = 10.0) -> None:
        """Sends nothing new, waits up to `drain_s` for what is in flight, records the rest as failed. Idempotent."""
        self._stopping.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=drain_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
            self._session = None

    def stats(self, since_s: float, until_s: float | None = None) -> LoadStats:
        """Figures of the requests that ended in `[since_s, until_s)` (`time.monotonic()`; by default until now)."""
        end_s = time.monotonic() if until_s is None else until_s
        if len(self._records) == KEPT_RECORDS:  # older ones are gone: the window begins where knowledge does
            since_s = max(since_s, self._records[0].end_s)
        return summarise(self.records(since_s, end_s), end_s - since_s)

    def records(self, since_s: float, until_s: float) -> list[RequestRecord]:
        """The kept records of requests that ended in `[since_s, until_s)`, newest first."""
        found = []
        for record in reversed(self._records):  # ordered by end, so the first older one ends the search
            if record.end_s < since_s:
                break
            if record.end_s < until_s:
                found.append(record)
        return found

    async def _client(self, session: aiohttp.ClientSession, until_s: float) -> None:
        while not self._stopping.is_set() and time.monotonic() < until_s:
            if not await self._request(session):
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S)

    async def _request(self, session: aiohttp.ClientSession) -> bool:
        prompt = self._source.draw()
        status: int | None = None
        cause: str | None = CANCELLED
        retry_after: str | None = None
        start_s = time.monotonic()
        self.in_flight += 1
        try:
            async with session.post(f"{self.url}/v1/completions", data=prompt.body) as answer:
                status, retry_after = answer.status, answer.headers.get("Retry-After")
                cause = _fault(status, await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            cause = _words(error)
        finally:
            self.in_flight -= 1
            self._keep(RequestRecord(start_s, time.monotonic(), cause is None, status, prompt.kind, cause, retry_after))
        return cause is None

    def _keep(self, record: RequestRecord) -> None:
        self._records.append(record)
        if record.ok:
            self.ok_total += 1
        else:
            self.failed_total += 1
            self.causes[record.cause or "unknown"] += 1
        if self._on_record is not None:
            self._on_record(record)


def _fault(status: int, body: bytes) -> str | None:
    """Why an answer is not a good one, or None. A 200 that stopped before its tokens (an abort) is a failure too."""
    if status != 200:
        return f"HTTP {status}: {body[:200].decode(errors='replace').strip()}"
    if b'"finish_reason":"length"' not in body:
        return "HTTP 200 without the tokens asked for"
    return None


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
