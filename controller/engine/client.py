"""The daemon's end of the admin RPC (docs/rpc.md).

Belongs here: HTTP to the plugin's routes, and which error an answer is. Never: when to call, what a document means.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
from pydantic_core import from_json

from controller.bodies import MAX_BYTES
from controller.bodies import body as read_body
from controller.engine.connections import admin_url
from controller.engine.wire import knob_values, parse_purged, parse_runtime
from controller.settings import EngineSettings
from controller.token_file import TokenUnreadable, read_token
from domain.errors import EngineRefused, EngineUnreachable, HeldByAnother, PluginMissing, StaleGeneration
from domain.runtime import EngineRuntime, Purged

RUNTIME = "/governor/v1/runtime"
LEASE = "/governor/v1/lease"
PURGE = "/governor/v1/purge"
STATS = "/governor/v1/stats"

Document = Mapping[str, Any]


class EngineClient:
    """Calls one vLLM server. The token is read from its file at each call, so that a new one needs no restart."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        token_file: Path | None,
        timeout_s: float,
        where: str | None = None,
    ) -> None:
        """`where` is what people are told instead of `url`."""
        self.url = url
        self._where = where or url
        self._session = session
        self._token_file = token_file
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self.holder: str | None = None
        """As whom leases are taken; None: without a name, as an older plugin wants it."""

    @classmethod
    def over(cls, session: aiohttp.ClientSession, engine: EngineSettings) -> EngineClient:
        """`session` is connections.admin_session's. The plugin's own socket asks for no token, so none is read."""
        if engine.admin_socket is not None:
            return cls(session, admin_url(engine), None, engine.timeout_s, where=str(engine.admin_socket))
        return cls(session, admin_url(engine), engine.token_file, engine.timeout_s)

    async def runtime(self) -> EngineRuntime:
        """Read every knob."""
        return parse_runtime(await self._call("GET", RUNTIME))

    async def stats(self, cursor: str, *, allocator: bool = False) -> Document:
        """The statistics of docs/stats.md, with the records after `cursor` (empty: from the oldest one kept).

        `allocator`: have the workers' allocators asked, which waits for the batches in flight.
        """
        query = {"since": cursor, "allocator": "1"} if allocator else {"since": cursor}
        return await self._call("GET", STATS, query=query)

    async def set_knobs(
        self, runtime: EngineRuntime, knobs: Mapping[str, float | None], lease_s: float
    ) -> EngineRuntime:
        """Set knobs, all or none, on the engine that `runtime` was read from; answers what is in force now.

        None and NO_LIMIT let go of a knob of the API processes: as vLLM was started.
        Never repeated by itself: a call whose answer was lost may have been carried out.
        """
        body = {
            "boot_id": runtime.boot_id,
            "generation": runtime.generation,
            "lease_s": lease_s,
            "knobs": knob_values(knobs),
            **self._named(),
        }
        return parse_runtime(await self._call("PATCH", RUNTIME, body))

    async def renew_lease(
        self,
        boot_id: str,
        lease_s: float,
        fallback: Mapping[str, float | None] | None,
        instead_of: str | None = None,
    ) -> EngineRuntime:
        """Renew the lease; `fallback` None leaves the fallback values as they are. `instead_of`: a holder that is known
        to be gone. Raises HeldByAnother.
        """
        body: dict[str, Any] = {"boot_id": boot_id, "lease_s": lease_s, **self._named()}
        if instead_of is not None:
            body["instead_of"] = instead_of
        if fallback is not None:
            body["fallback"] = knob_values(fallback)
        return parse_runtime(await self._call("POST", LEASE, body))

    async def purge(self, boot_id: str, ratio: float, preempt: int = 0) -> tuple[Purged, ...]:
        """Evict that share of the free cached blocks, and put back so many running requests of each engine core.

        Answers what it came to. Never repeated by itself.
        """
        body: dict[str, Any] = {"boot_id": boot_id, "ratio": ratio}
        if preempt:
            body["preempt"] = preempt
        return parse_purged(await self._call("POST", PURGE, body))

    def _named(self) -> dict[str, str]:
        return {} if self.holder is None else {"holder": self.holder}

    async def _call(
        self, method: str, path: str, body: Document | None = None, query: Mapping[str, str] | None = None
    ) -> Document:
        try:
            async with self._session.request(
                method, self.url + path, json=body, params=query, headers=self._headers(), timeout=self._timeout
            ) as response:
                status, answer = response.status, await read_body(response)
            if answer is None:
                raise ValueError(f"the answer is longer than {MAX_BYTES} bytes")
            document = from_json(answer) if answer.startswith(b"{") else {}
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise EngineUnreachable(f"cannot reach vLLM at {self._where}: {reason}") from error
        if status == 200:
            return document
        raise self._refusal(method, path, status, document)

    def _refusal(self, method: str, path: str, status: int, document: Document) -> Exception:
        error = document.get("error")
        ours = error if isinstance(error, Mapping) and isinstance(error.get("code"), str) else {}
        if status == 404 and not ours:
            return PluginMissing(
                f"vLLM at {self._where} has no governor plugin: install vllm-governor-engine in its environment, set "
                "VLLM_PLUGINS=governor and VLLM_GOVERNOR_TOKEN_FILE, and restart it"
            )
        said = f"vLLM at {self._where} refused {method} {path}: {ours.get('message', f'HTTP {status}')}"
        if ours.get("code") == "held":
            return HeldByAnother(said, str(ours.get("holder")))
        kind = StaleGeneration if status == 412 else EngineUnreachable if status >= 500 else EngineRefused
        return kind(said)

    def _headers(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        try:
            token = read_token(self._token_file)
        except TokenUnreadable as error:
            raise EngineRefused(f"cannot read the engine's token file {self._token_file}: {error}") from error
        return {"Authorization": f"Bearer {token}"}
