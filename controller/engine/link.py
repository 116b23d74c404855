"""The daemon's standing with one engine: which boot it is, the lease, the fallback values.

Belongs here: meeting the engine, renewing the lease, noticing a restart or another daemon. Never: knobs that a policy
wants changed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from controller.engine import holder
from controller.engine.client import EngineClient
from controller.watch import Condition
from domain.errors import EngineUnreachable, HeldByAnother, RecoverableError, StaleGeneration
from domain.runtime import EngineRuntime

logger = logging.getLogger(__name__)


class EngineLink:
    """Renewing the lease answers the runtime as well, so one call a tick does both.

    `fallback` may be replaced between two ticks; the engine has it with the next renewal. `held_by` is the other daemon
    that steers this engine: while there is one the engine is read and nothing else. `me` None: no name is given.
    """

    def __init__(
        self, client: EngineClient, lease_s: float, fallback: Mapping[str, float], me: str | None = None
    ) -> None:
        self._client = client
        self._lease_s = lease_s
        self._me = me
        self.fallback = fallback
        self.held_by: str | None = None
        self.silent = False
        """The last `read` got no answer at all."""
        self.contested = False
        """The last renewal found fallback values that are not ours."""
        self._boot_id: str | None = None
        self._expirations = 0
        self._reach = Condition("engine")
        self._lease = Condition("lease")
        self._plugin = Condition("plugin")

    async def read(self) -> tuple[EngineRuntime | None, str | None]:
        """The runtime, or why there is none. Never raises RecoverableError."""
        self.silent = False
        try:
            runtime = await self._take()
        except StaleGeneration:
            self._boot_id = None
            return self._lost("the engine restarted, its settings are read again")
        except RecoverableError as error:
            self.silent = isinstance(error, EngineUnreachable)
            return self._lost(f"waiting for it: {error}")
        self._reach.report(None)
        self._plugin.report("; ".join(part for core in runtime.cores for part in core.degraded) or None)
        self._notice_expiry(runtime)
        return runtime, None

    async def _take(self) -> EngineRuntime:
        """With the lease, or as a mere reader while it is another's. That one is asked after at each tick, so that an
        engine whose daemon ended is taken over at once, or as soon as the lease runs out.
        """
        try:
            runtime = await self._renew(await self._meet() if self._boot_id is None else None)
        except HeldByAnother as error:
            self.held_by, self.contested = error.holder, True
            who = holder.shown(error.holder)
            self._lease.report(f"{who} steers this engine; it is only observed until that one stops")
            return await self._client.runtime()
        self.held_by = None
        self._lease.report(None)
        return runtime

    async def _meet(self) -> EngineRuntime:
        runtime = await self._client.runtime()
        self._boot_id, self._expirations = runtime.boot_id, runtime.lease_expirations
        knows = all(core.names_holder for core in runtime.cores)
        self._client.holder = self._me if knows else None
        if knows:  # several cores have one holder, or one of them has none yet
            others = (core.lease_holder for core in runtime.cores)
            self.held_by = next((one for one in others if one not in (None, self._me)), None)
        return await self._hold(runtime.boot_id, self._wanted_fallback(runtime))

    async def _hold(self, boot_id: str, fallback: Mapping[str, float] | None) -> EngineRuntime:
        ended = self.held_by if self.held_by is not None and holder.gone(self.held_by) else None
        return await self._client.renew_lease(boot_id, self._lease_s, fallback, ended)

    async def _renew(self, met: EngineRuntime | None) -> EngineRuntime:
        runtime = met or await self._hold(self._boot_id or "", None)
        ours = self._wanted_fallback(runtime)
        expected = runtime.envelope | ours
        # Somebody else named other values: the dead man's switch is ours to set.
        differs = (core.fallback.get(name) != value for core in runtime.cores for name, value in expected.items())
        self.contested = any(differs)
        if self.contested:
            runtime = await self._hold(runtime.boot_id, ours)
        return runtime

    def _wanted_fallback(self, runtime: EngineRuntime) -> dict[str, float]:
        """Ours, inside the engine's bounds, for it refuses the lease else. The rest is start-up values."""
        wanted = {}
        for name, value in self.fallback.items():
            knob = runtime.knob(name)
            if knob is not None:
                value = value if knob.minimum is None else max(value, knob.minimum)
                wanted[name] = value if knob.maximum is None else min(value, knob.maximum)
        return wanted

    def _notice_expiry(self, runtime: EngineRuntime) -> None:
        if runtime.lease_expirations > self._expirations:
            logger.warning("engine: the lease had run out, the engine went back to its fallback values")
        self._expirations = runtime.lease_expirations

    def _lost(self, problem: str) -> tuple[None, str]:
        self._reach.report(problem)
        return None, problem
