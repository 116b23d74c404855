"""The plugin inside an in-process engine core, and the daemon's calls to it without HTTP.

Belongs here: one call for each route that the daemon uses, on the run's clock. Never: when to call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from vllm_governor_engine import __version__, core
from vllm_governor_engine.errors import GovernorError
from vllm_governor_engine.probe import vllm_version

from bench.emulated_gpu.inprocess import InProcessEngine
from controller.engine import stats_document as engine_stats
from controller.engine.wire import knob_values, parse_runtime
from domain.readings.engine import EngineStats
from domain.runtime import EngineRuntime

BOOT_ID = "virtual"
"""A boot's id is drawn by chance; two runs are to be the same."""
LEASE_S = 30.0


class Plugin:
    """Speaks to the engine core as the plugin's routes do. `wall` is the time of the day on the run's clock."""

    def __init__(self, engine: InProcessEngine, wall: Callable[[], float]) -> None:
        clock = engine.clock
        governor = core.Governor(engine.scheduler, engine.core.vllm_config, clock=clock.now_s, wall=wall)
        governor.boot_id = BOOT_ID
        engine.core._vllm_governor = governor
        self._engine = engine
        self._read = 0

    def call(self, op: str, **payload: Any) -> dict[str, Any]:
        """One operation. Raises GovernorError when the engine core refuses it."""
        reply = json.loads(core.call(self._engine.core, op, json.dumps(payload)))
        if "error" in reply:
            raise GovernorError.from_wire(reply["error"])
        answer: dict[str, Any] = reply["ok"]
        return answer

    def renew(self) -> EngineRuntime:
        """Renew the lease, which answers the runtime."""
        return _runtime(self.call("lease", expect={BOOT_ID: None}, lease_s=LEASE_S, fallback=None))

    def set(self, runtime: EngineRuntime, knobs: Mapping[str, float | None]) -> EngineRuntime:
        """Set knobs, all or none; answers what is in force now."""
        expect = {BOOT_ID: runtime.generation}
        return _runtime(self.call("set", expect=expect, knobs=knob_values(knobs), lease_s=LEASE_S))

    def purge(self, ratio: float, preempt: int = 0) -> EngineRuntime:
        """Put back so many running requests, and begin to evict that share of the free cached blocks; the engine's
        steps go on with it.
        """
        return _runtime(self.call("purge", expect={BOOT_ID: None}, ratio=ratio, preempt=preempt))

    def stats(self) -> EngineStats:
        """What it counted, each record once."""
        cores = engine_stats.cores({"engines": [self.call("stats", since={"*": self._read})]})
        self._read = cores[0].next or self._read
        return EngineStats((cores[0].stats,), tuple(engine_stats.records(cores[0])))


def _runtime(answer: Mapping[str, Any]) -> EngineRuntime:
    document = {
        "boot_id": answer["boot_id"],
        "generation": answer["generation"],
        "vllm_version": vllm_version(),
        "plugin_version": __version__,
        "engines": [answer],
    }
    return parse_runtime(document)
