"""The daemon's end of the admin RPC (docs/rpc.md).

Belongs here: HTTP to the plugin's routes and turning an answer into domain values. Never: when to call.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from domain.errors import BadReading, EngineRefused, EngineUnreachable, PluginMissing, StaleGeneration
from domain.runtime import EngineCore, EngineRuntime, Knob, Support

RUNTIME = "/governor/v1/runtime"
LEASE = "/governor/v1/lease"


class EngineClient:
    """Calls one vLLM server. The token is read from its file at each call, so that a new one needs no restart."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token_file: Path | None, timeout_s: float) -> None:
        self.url = url
        self._session = session
        self._token_file = token_file
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def runtime(self) -> EngineRuntime:
        """Read every knob."""
        return await self._call("GET", RUNTIME, None)

    async def set_knobs(self, runtime: EngineRuntime, knobs: Mapping[str, float], lease_s: float) -> EngineRuntime:
        """Set knobs, all or none, on the engine that `runtime` was read from; answers what is in force now.

        Never repeated by itself: a call whose answer was lost may have been carried out.
        """
        body = {
            "boot_id": runtime.boot_id,
            "generation": runtime.generation,
            "lease_s": lease_s,
            "knobs": {name: _integral(value) for name, value in knobs.items()},
        }
        return await self._call("PATCH", RUNTIME, body)

    async def renew_lease(self, boot_id: str, lease_s: float, fallback: Mapping[str, float] | None) -> EngineRuntime:
        """Renew the lease; `fallback` None leaves the fallback values as they are."""
        body: dict[str, Any] = {"boot_id": boot_id, "lease_s": lease_s}
        if fallback is not None:
            body["fallback"] = {name: _integral(value) for name, value in fallback.items()}
        return await self._call("POST", LEASE, body)

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> EngineRuntime:
        headers = self._headers()
        try:
            async with self._session.request(
                method, self.url + path, json=body, headers=headers, timeout=self._timeout
            ) as response:
                status, text = response.status, await response.text()
                document = await response.json(content_type=None) if text.startswith("{") else {}
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise EngineUnreachable(f"cannot reach vLLM at {self.url}: {reason}") from error
        if status == 200:
            return parse_runtime(document)
        raise self._refusal(method, path, status, document)

    def _refusal(self, method: str, path: str, status: int, document: Mapping[str, Any]) -> Exception:
        error = document.get("error")
        ours = error if isinstance(error, Mapping) and isinstance(error.get("code"), str) else {}
        if status == 404 and not ours:
            return PluginMissing(
                f"vLLM at {self.url} has no governor plugin: install vllm-governor-engine in its environment, set "
                "VLLM_PLUGINS=governor and VLLM_GOVERNOR_TOKEN_FILE, and restart it"
            )
        kind = StaleGeneration if status == 412 else EngineUnreachable if status >= 500 else EngineRefused
        return kind(f"vLLM at {self.url} refused {method} {path}: {ours.get('message', f'HTTP {status}')}")

    def _headers(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        try:
            token = self._token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise EngineRefused(f"cannot read the engine's token file {self._token_file}: {reason}") from error
        return {"Authorization": f"Bearer {token}"}


def _integral(value: float) -> float | int:
    """Knobs that count things travel as integers."""
    return int(value) if float(value).is_integer() else value


def parse_runtime(document: Mapping[str, Any]) -> EngineRuntime:
    """The runtime document of docs/rpc.md as domain values. Raises BadReading naming what is missing."""
    try:
        return EngineRuntime(
            boot_id=str(document["boot_id"]),
            generation=int(document["generation"]),
            vllm_version=str(document["vllm_version"]),
            plugin_version=str(document["plugin_version"]),
            cores=tuple(_core(core) for core in document["engines"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadReading(f"cannot understand the plugin's answer: {type(error).__name__} {error}") from error


def _core(core: Mapping[str, Any]) -> EngineCore:
    lease = core["lease"]
    return EngineCore(
        index=int(core["engine"]),
        boot_id=str(core["boot_id"]),
        generation=int(core["generation"]),
        running=int(core["running"]),
        waiting=int(core["waiting"]),
        knobs={name: _knob(name, knob) for name, knob in core["knobs"].items()},
        lease_remaining_s=lease["remaining_s"],
        lease_expirations=int(lease["expirations"]),
        fallback=dict(lease["fallback"]),
        degraded=tuple(f"{part['part']}: {part['reason']}" for part in core["degraded"]),
    )


def _knob(name: str, knob: Mapping[str, Any]) -> Knob:
    return Knob(
        name=name,
        value=knob["value"],
        startup=knob["startup"],
        minimum=knob["min"],
        maximum=knob["max"],
        support=Support(knob["support"]),
        reason=knob["reason"],
    )
