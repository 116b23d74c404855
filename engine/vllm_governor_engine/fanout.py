"""One call from the API process to every engine core, and their answers as one runtime document.

Here: reaching the cores on every vLLM that is supported, the timeout, merging, all-or-none over several cores.
Never here: HTTP, or the meaning of an operation.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from . import __version__, deadline, errors
from .plugin import METHOD
from .probe import vllm_version

API_VERSION = 1
TIMEOUT_VARIABLE = "VLLM_GOVERNOR_TIMEOUT_S"
DEFAULT_TIMEOUT_S = 5.0
_START_SHARE = 0.8  # of the timeout: what begins later might end after the caller has been told that nothing changed

Runtime = dict[str, Any]


class Fanout:
    """The engine cores as one. `client` is vLLM's engine core client (AsyncLLM.engine_core)."""

    def __init__(self, client: Any, timeout_s: float | None = None) -> None:
        self._client = client
        self._timeout_s = _timeout_from_environment() if timeout_s is None else timeout_s
        self._late: set[asyncio.Future[Any]] = set()
        self._vllm_version = vllm_version()

    async def runtime(self) -> Runtime:
        """Read the runtime of every core."""
        return self._merge(await self._each("runtime", {}))

    async def patch(self, patch: Mapping[str, Any]) -> Runtime:
        """Set knobs in every core, or in none."""
        change = {name: patch[name] for name in ("knobs", "lease_s", "holder")} | {"change_id": secrets.token_hex(8)}
        if self._single:
            return self._merge(await self._each("set", {**change, "expect": {patch["boot_id"]: patch["generation"]}}))
        before = await self.runtime()
        if (patch["boot_id"], patch["generation"]) != (before["boot_id"], before["generation"]):
            raise errors.stale(before["boot_id"], before["generation"])
        change["expect"] = {core["boot_id"]: core["generation"] for core in before["engines"]}
        try:
            await self._each("check", change)
        except errors.GovernorError as error:
            raise await self._joined(error) from error
        try:
            return self._merge(await self._each("set", change))
        except errors.GovernorError as error:
            await self._undo(before, change)
            raise await self._joined(error) from error

    async def lease(self, lease: Mapping[str, Any]) -> Runtime:
        """Renew the lease in every core."""
        renewal = {name: lease[name] for name in ("lease_s", "fallback", "holder", "instead_of")}
        if self._single:
            return self._merge(await self._each("lease", {**renewal, "expect": {lease["boot_id"]: None}}))
        before = await self.runtime()
        if lease["boot_id"] != before["boot_id"]:
            raise errors.stale(before["boot_id"], before["generation"])
        renewal["expect"] = {core["boot_id"]: None for core in before["engines"]}
        await self._each("check_lease", renewal)
        return self._merge(await self._each("lease", renewal))

    async def freeze(self, freeze: Mapping[str, Any]) -> Runtime:
        """Freeze every core, or lift it."""
        call = {"frozen": freeze["frozen"]}
        if self._single:
            return self._merge(await self._each("freeze", {**call, "expect": {freeze["boot_id"]: None}}))
        before = await self.runtime()
        if freeze["boot_id"] != before["boot_id"]:
            raise errors.stale(before["boot_id"], before["generation"])
        return self._merge(
            await self._each("freeze", {**call, "expect": {core["boot_id"]: None for core in before["engines"]}})
        )

    async def purge(self, purge: Mapping[str, Any]) -> Runtime:
        """Purge in every core, and wait until that is done, or the timeout is over: a purge under way goes on then.

        An idle core does a piece at each call.
        """
        call = {"ratio": purge["ratio"], "preempt": purge["preempt"]}
        before = await self.runtime()
        if purge["boot_id"] != before["boot_id"]:
            raise errors.stale(before["boot_id"], before["generation"])
        call["expect"] = {core["boot_id"]: None for core in before["engines"]}
        await self._each("check_purge", call)
        until = time.monotonic() + self._timeout_s
        cores = await self._each("purge", call)
        while time.monotonic() < until and not all(_purged(core) for core in cores):
            cores = await self._each("runtime", {})
        return self._merge(cores)

    async def follow(self, report: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Report this API process to every core; what each wants of it, in the order of their index."""
        return await self._each("follow", {"process": report})

    async def stats(self, query: Mapping[str, Any]) -> Runtime:
        """Read the statistics of every core; `cursor` is what to ask with the next time."""
        merged = self._merge(await self._each("stats", query))
        records = [(core["boot_id"], core["records"]) for core in merged["engines"]]
        cursor = ",".join(f"{boot_id}:{known['next']}" for boot_id, known in records if known is not None)
        return {**merged, "cursor": cursor}

    @property
    def _single(self) -> bool:
        return len(getattr(self._client, "core_engines", (None,))) == 1

    async def _undo(self, before: Runtime, change: Mapping[str, Any]) -> None:
        """Take back what some cores may have done; a core that did nothing, or was changed since, ignores it."""
        undo = {}
        for core in before["engines"]:
            knobs = core["knobs"]
            undo[core["boot_id"]] = {name: knobs[name]["value"] for name in change["knobs"] if name in knobs}
        try:
            await self._each("undo", {"undo": undo, "change_id": change["change_id"]})
        except errors.GovernorError:
            return  # the error that led here is the one to tell; the next reading shows what is

    async def _joined(self, error: errors.GovernorError) -> errors.GovernorError:
        """An error as the caller has to see it: `stale` names the boot_id and the generation of all cores together."""
        if error.code != "stale":
            return error
        now = await self.runtime()
        return errors.stale(now["boot_id"], now["generation"])

    async def _each(self, op: str, payload: Mapping[str, Any]) -> list[Runtime]:
        """Call every core; their runtimes in the order of their index, or the first error."""
        due = deadline.at(time.monotonic() + _START_SHARE * self._timeout_s)
        replies = await self._call(op, json.dumps({**payload, "deadline": due}))
        runtimes = []
        for reply in replies:
            if "error" in reply:
                raise errors.GovernorError.from_wire(reply["error"])
            runtimes.append(reply["ok"])
        return sorted(runtimes, key=lambda core: int(core["engine"]))

    async def _call(self, op: str, payload_json: str) -> list[dict[str, Any]]:
        task = asyncio.ensure_future(_reach_all(self._client, op, payload_json))
        try:
            # Shielded: vLLM resolves the reply of a call that was given up too, and must find it whole.
            answers = await asyncio.wait_for(asyncio.shield(task), self._timeout_s)
            return [json.loads(answer) for answer in answers]
        except asyncio.TimeoutError:
            self._late.add(task)
            task.add_done_callback(self._forget)
            raise errors.unavailable(
                f"the engine core did not answer within {self._timeout_s:g} s; it may be starting, stuck or in one "
                "long step; read the runtime before you try again"
            ) from None
        except Exception as error:
            raise errors.unavailable(
                f"the engine core cannot be asked ({errors.shown(str(error), 200)}); see vLLM's log, and make sure the "
                "plugin is installed where the engine core runs"
            ) from error

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._late.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not complain about it

    def _merge(self, cores: Sequence[Runtime]) -> Runtime:
        return {
            "api_version": API_VERSION,
            "plugin_version": __version__,
            "vllm_version": self._vllm_version,
            "boot_id": "+".join(core["boot_id"] for core in cores),
            "generation": sum(core["generation"] for core in cores),
            "engines": list(cores),
        }


def _purged(core: Runtime) -> bool:
    last = core["purge"]["last"]
    return bool(last["done"]) or last["failed"] is not None


async def _reach_all(client: Any, op: str, payload_json: str) -> Sequence[str]:
    """One answer per engine core this API process manages."""
    if client is None:
        raise RuntimeError("this server has no engine")
    call_all = getattr(client, "call_utility_all_async", None)
    if call_all is not None:  # vLLM 0.32 on
        return list(await call_all(METHOD, op, payload_json))
    call_one = getattr(client, "_call_utility_async", None)
    engines = getattr(client, "core_engines", None)
    if call_one is not None and engines:
        calls: list[Awaitable[str]] = [call_one(METHOD, op, payload_json, engine=engine) for engine in engines]
        return await asyncio.gather(*calls)
    return [await client.call_utility_async(METHOD, op, payload_json)]


def _timeout_from_environment() -> float:
    """Seconds; the default when the variable holds no number between 0.1 and 600."""
    try:
        timeout_s = float(os.environ.get(TIMEOUT_VARIABLE, DEFAULT_TIMEOUT_S))
    except ValueError:
        return DEFAULT_TIMEOUT_S
    return timeout_s if 0.1 <= timeout_s <= 600 else DEFAULT_TIMEOUT_S
