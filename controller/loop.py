"""One tick: sense, estimate, decide, act, record.

Belongs here: the order of a tick and what is carried from one to the next. Never: a rule, a metric's name, SQL.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from controller import clock as system_clock
from controller.actuator import Actuator
from controller.arbiter import ACTING_MODES, Arbiter
from controller.engine_client import EngineClient
from controller.engine_link import EngineLink
from controller.estimator import Estimator
from controller.recorder import Recorder
from controller.sensors import vllm
from controller.sensors.nvml import NvmlSensor
from controller.settings import Settings
from controller.threads import BoundedCall
from controller.watch import Condition
from domain.decision import Decision, Mode, Proposal, Status
from domain.errors import HistoryUnavailable, RecoverableError
from domain.runtime import MAX_NUM_SEQS, EngineCore, EngineRuntime
from domain.snapshot import GpuReading, Snapshot, VllmReading
from domain.view import View
from policies import registry
from store.history import History

logger = logging.getLogger(__name__)

NVML_LIMIT_S = 1.0
SPARE_S = 5.0
"""What a tick may take beyond its calls to the engine, before it is cut off."""


class Loop:
    """Steers one engine. `tick` is called by the scheduler; `reconfigure` swaps its settings."""

    def __init__(
        self,
        settings: Settings,
        session: aiohttp.ClientSession,
        history: History,
        nvml: NvmlSensor,
        clock: Callable[[], system_clock.Now] = system_clock.now,
    ) -> None:
        self._session = session
        self._clock = clock
        self._recorder = Recorder(history)
        self._read_nvml = BoundedCall("nvml", nvml.read)
        self._metrics = Condition("metrics")
        self._gpu = Condition("gpu")
        self._pace = Condition("pace")
        self._boot_id: str | None = None
        self._values: dict[str, float | None] = {}
        self._ticking = asyncio.Lock()
        self.failed_ticks = 0
        self._configure(settings)

    async def reconfigure(self, settings: Settings) -> None:
        """Take new settings between two ticks; policies start afresh, the lease gets the new mode's fallback values."""
        async with self._ticking:
            self._configure(settings)

    async def idle(self) -> None:
        """Return once no tick runs."""
        async with self._ticking:
            return

    def _configure(self, settings: Settings) -> None:
        self.settings = settings
        engine = settings.engine
        client = EngineClient(self._session, engine.url, engine.token_file, engine.timeout_s)
        self._link = EngineLink(client, engine.lease_s, _fallback(settings))
        self._actuator = Actuator(client, self._recorder, engine.lease_s)
        self._estimator = Estimator(settings.tick_s)
        self._arbiter = Arbiter(settings.tick_s)
        self._policies = registry.build(settings.policies, settings.mode)
        self._states: dict[str, Any] = {policy.name: policy.initial_state() for policy in self._policies}

    async def tick(self) -> None:
        """One tick; raises nothing but cancellation. One that fails is counted and logged, and the loop goes on."""
        limit_s = 4 * self.settings.engine.timeout_s + SPARE_S
        started_s = asyncio.get_running_loop().time()
        try:
            async with self._ticking, asyncio.timeout(limit_s):
                await self._tick()
        except RecoverableError as error:
            self.failed_ticks += 1
            logger.warning("tick failed: %s", error)
        except TimeoutError:
            self.failed_ticks += 1
            logger.error("tick failed: it took longer than %.0f s", limit_s)
        except Exception:
            self.failed_ticks += 1
            logger.exception("tick failed")
        late = asyncio.get_running_loop().time() - started_s > self.settings.tick_s
        self._pace.report("ticks take longer than tick_s, some are left out" if late else None)

    async def _tick(self) -> None:
        snapshot = await self._sense()
        runtime = snapshot.runtime
        if runtime is not None:
            await self._take_note_of(snapshot, runtime)
        view = self._estimator.update(snapshot, self.settings.slo.objectives())
        decisions = self._arbiter.decide(self.settings.mode, snapshot.wall, view, self._propose(view))
        changes = [d for d in decisions if d.status is Status.INTENDED]
        if changes and runtime is not None:
            await self._act(runtime, changes, view)
        await self._recorder.catch_up()
        await self._recorder.note([d for d in decisions if d.status is not Status.INTENDED])
        if runtime is not None and any(_draining(core) for core in runtime.cores):
            self._estimator.restart_window()  # what completes now still ran under the old cap

    async def _sense(self) -> Snapshot:
        now = self._clock()
        reading, (runtime, _), gpus = await asyncio.gather(self._read_metrics(), self._link.read(), self._read_gpus())
        return Snapshot(now.monotonic_s, now.wall, reading, runtime, gpus)

    async def _read_metrics(self) -> VllmReading | None:
        engine = self.settings.engine
        try:
            reading = await vllm.scrape(self._session, engine.url, engine.timeout_s)
        except RecoverableError as error:
            self._metrics.report(str(error))
            return None
        self._metrics.report(None)
        return reading

    async def _read_gpus(self) -> tuple[GpuReading, ...] | None:
        """A driver call that does not return leaves one thread waiting, and the readings unknown."""
        try:
            readings = await self._read_nvml(NVML_LIMIT_S)
        except Exception as error:  # a broken driver library must not take the tick with it
            self._gpu.report(f"NVML cannot be read: {error}")
            return None
        self._gpu.report(None)
        return readings

    async def _take_note_of(self, snapshot: Snapshot, runtime: EngineRuntime) -> None:
        """Open a run for a boot that is new; start the windows afresh when anybody has moved a knob."""
        values = {name: (k.value if (k := runtime.knob(name)) else None) for name in runtime.envelope}
        if values != self._values or runtime.boot_id != self._boot_id:
            self._estimator.restart_window()
        self._values = values
        if runtime.boot_id != self._boot_id and await self._recorder.begin_run(
            snapshot.wall, socket.gethostname(), self.settings.engine.url, runtime
        ):
            self._boot_id = runtime.boot_id
            logger.info(
                "engine: %s vLLM %s at %s, boot %s, envelope %s",
                "steering" if self.settings.mode in ACTING_MODES else "watching",
                runtime.vllm_version,
                self.settings.engine.url,
                runtime.boot_id,
                ", ".join(f"{name}={value:g}" for name, value in runtime.envelope.items()),
            )

    def _propose(self, view: View) -> list[Proposal]:
        proposals: list[Proposal] = []
        for policy in self._policies:
            self._states[policy.name], made = policy.decide(self._states[policy.name], view)
            proposals += made
        return proposals

    async def _act(self, runtime: EngineRuntime, changes: list[Decision], view: View) -> None:
        try:
            concluded = await self._actuator.carry_out(runtime, changes)
        except HistoryUnavailable as error:
            self._recorder.withheld(error)
            return
        finally:
            self._estimator.restart_window()
        for decision in concluded:
            self._arbiter.tried(decision.knob, view.now_s, took_effect=decision.status is Status.APPLIED)


def _fallback(settings: Settings) -> Mapping[str, float]:
    """What the engine returns to when this daemon dies: the fixed batch in mode `static`, else the start-up values."""
    if settings.mode is Mode.STATIC:
        return {MAX_NUM_SEQS: settings.policies.static.fixed_batch_size}
    return {}


def _draining(core: EngineCore) -> bool:
    cap = core.knobs.get(MAX_NUM_SEQS)
    return cap is not None and cap.value is not None and core.running > cap.value
