"""The daemon's standing with one engine: which boot it is, the lease, the fallback values.

Belongs here: meeting the engine, renewing the lease, noticing a restart. Never: knobs that a policy wants changed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from controller.engine_client import EngineClient
from controller.watch import Condition
from domain.errors import RecoverableError, StaleGeneration
from domain.runtime import EngineRuntime

logger = logging.getLogger(__name__)


class EngineLink:
    """Renewing the lease answers the runtime as well, so one call a tick does both."""

    def __init__(self, client: EngineClient, lease_s: float, fallback: Mapping[str, float]) -> None:
        self._client = client
        self._lease_s = lease_s
        self._fallback = fallback
        self._boot_id: str | None = None
        self._expirations = 0
        self._reach = Condition("engine")
        self._plugin = Condition("plugin")

    async def read(self) -> tuple[EngineRuntime | None, str | None]:
        """The runtime, or why there is none. Never raises RecoverableError."""
        try:
            runtime = await self._meet() if self._boot_id is None else None
            runtime = await self._renew(runtime)
        except StaleGeneration:
            self._boot_id = None
            return self._lost("the engine restarted, its settings are read again")
        except RecoverableError as error:
            return self._lost(f"waiting for it: {error}")
        self._reach.report(None)
        self._plugin.report("; ".join(part for core in runtime.cores for part in core.degraded) or None)
        self._notice_expiry(runtime)
        return runtime, None

    async def _meet(self) -> EngineRuntime:
        runtime = await self._client.runtime()
        self._boot_id, self._expirations = runtime.boot_id, runtime.lease_expirations
        return await self._client.renew_lease(runtime.boot_id, self._lease_s, self._wanted_fallback(runtime))

    async def _renew(self, met: EngineRuntime | None) -> EngineRuntime:
        runtime = met or await self._client.renew_lease(self._boot_id or "", self._lease_s, None)
        ours = self._wanted_fallback(runtime)
        expected = runtime.envelope | ours
        # Somebody else named other values: the dead man's switch is ours to set.
        if any(core.fallback.get(name) != value for core in runtime.cores for name, value in expected.items()):
            runtime = await self._client.renew_lease(runtime.boot_id, self._lease_s, ours)
        return runtime

    def _wanted_fallback(self, runtime: EngineRuntime) -> dict[str, float]:
        """Ours, inside the envelope: an engine started smaller keeps its own. The rest is start-up values."""
        envelope = runtime.envelope
        return {name: min(value, envelope[name]) for name, value in self._fallback.items() if name in envelope}

    def _notice_expiry(self, runtime: EngineRuntime) -> None:
        if runtime.lease_expirations > self._expirations:
            logger.warning("engine: the lease had run out, the engine went back to its fallback values")
        self._expirations = runtime.lease_expirations

    def _lost(self, problem: str) -> tuple[None, str]:
        self._reach.report(problem)
        return None, problem
