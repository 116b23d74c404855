"""One tick: sense, estimate, decide, act, record.

Belongs here: the order of a tick and what is carried from one to the next. Never: a rule, a metric's name, SQL.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import aiohttp

from controller import clock as system_clock
from controller.actuator import Actuator
from controller.arbiter import COOLDOWN_TICKS, Arbiter
from controller.engine_client import EngineClient
from controller.estimator import Estimator
from controller.sensors import vllm
from controller.sensors.nvml import NvmlSensor
from controller.settings import Settings
from controller.watch import Condition
from domain.decision import Decision, Mode, Proposal, Reason, Status
from domain.errors import HistoryUnavailable, RecoverableError, StaleGeneration
from domain.runtime import MAX_NUM_SEQS, EngineRuntime
from domain.snapshot import GpuReading, Snapshot, VllmReading
from domain.view import View
from policies import registry
from store.history import History

logger = logging.getLogger(__name__)

TICK_DEADLINE_S = 10.0
NVML_DEADLINE_S = 1.0
HOLD_TICKS = 3
"""A hold is written once its reason has lasted this many ticks: reasons that alternate every tick say nothing."""


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
        self._history = history
        self._nvml = nvml
        self._nvml_job: asyncio.Task[tuple[GpuReading, ...] | None] | None = None
        self._engine_condition = Condition("engine")
        self._metrics_condition = Condition("metrics")
        self._history_condition = Condition("history")
        self._boot_id: str | None = None
        self._run_id: int | None = None
        self._expirations = 0
        self._said: dict[str, tuple[object, ...]] = {}
        self._holds: dict[str, tuple[Reason, int]] = {}
        self.failed_ticks = 0
        self._ticking = asyncio.Lock()
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
        self._client = EngineClient(self._session, engine.url, engine.token_file, engine.timeout_s)
        self._actuator = Actuator(self._client, self._history, engine.lease_s)
        self._estimator = Estimator(settings.tick_s)
        self._arbiter = Arbiter(cooldown_s=COOLDOWN_TICKS * settings.tick_s * 0.9)
        self._policies = registry.build(settings.policies, settings.mode)
        self._states: dict[str, Any] = {policy.name: policy.initial_state() for policy in self._policies}
        self._fallback_sent = False

    async def tick(self) -> None:
        """One tick; never raises but for cancellation. A tick that fails is counted and logged, and the loop goes
        on.
        """
        try:
            async with self._ticking, asyncio.timeout(TICK_DEADLINE_S):
                await self._tick()
        except RecoverableError as error:
            self.failed_ticks += 1
            logger.warning("tick failed: %s", error)
        except TimeoutError:
            self.failed_ticks += 1
            logger.error("tick failed: it took longer than %.0f s", TICK_DEADLINE_S)
        except Exception:
            self.failed_ticks += 1
            logger.exception("tick failed")

    async def _tick(self) -> None:
        snapshot = await self._sense()
        runtime = snapshot.runtime
        if runtime is not None:
            await self._greet(snapshot.wall, runtime)
        view = self._estimator.update(snapshot, self.settings.slo.objectives())
        decisions = self._arbiter.decide(self.settings.mode, snapshot.wall, view, self._propose(view))
        changes = [d for d in decisions if d.status is Status.INTENDED]
        if changes and runtime is not None:
            await self._act(runtime, changes, view)
        await self._record([d for d in decisions if d.status is not Status.INTENDED])
        if runtime is not None and any(_draining(core) for core in runtime.cores):
            self._estimator.restart_window()  # what completes now still ran under the old cap

    async def _sense(self) -> Snapshot:
        now = self._clock()
        (reading, metrics_problem), (runtime, engine_problem), gpus = await asyncio.gather(
            self._read_metrics(), self._read_engine(), self._read_gpus()
        )
        self._metrics_condition.report(metrics_problem)
        self._engine_condition.report(engine_problem)
        problems = tuple(problem for problem in (metrics_problem, engine_problem) if problem)
        return Snapshot(now.monotonic_s, now.wall, reading, runtime, gpus, problems)

    async def _read_metrics(self) -> tuple[VllmReading | None, str | None]:
        engine = self.settings.engine
        try:
            return await vllm.scrape(self._session, engine.url, engine.timeout_s), None
        except RecoverableError as error:
            return None, str(error)

    async def _read_engine(self) -> tuple[EngineRuntime | None, str | None]:
        """Renewing the lease answers the runtime as well: one call does both."""
        try:
            if self._boot_id is None:
                self._boot_id = (await self._client.runtime()).boot_id
                self._fallback_sent = False
            runtime = await self._renew(self._boot_id)
        except StaleGeneration:
            self._boot_id = None  # the engine restarted: meet it anew at the next tick
            return None, "the engine restarted, its settings are read again"
        except RecoverableError as error:
            return None, f"waiting for it: {error}"
        return runtime, None

    async def _renew(self, boot_id: str) -> EngineRuntime:
        fallback = None if self._fallback_sent else self._fallback()
        runtime = await self._client.renew_lease(boot_id, self.settings.engine.lease_s, fallback)
        self._fallback_sent = True
        return runtime

    def _fallback(self) -> Mapping[str, float]:
        """What the engine returns to when this daemon dies: the fixed batch in mode `static`, else the start-up
        values.
        """
        if self.settings.mode is Mode.STATIC:
            return {MAX_NUM_SEQS: self.settings.policies.static.fixed_batch_size}
        return {}

    async def _read_gpus(self) -> tuple[GpuReading, ...] | None:
        """In a thread; a driver call that does not return leaves one thread waiting, and the readings unknown."""
        if self._nvml_job is None or self._nvml_job.done():
            self._nvml_job = asyncio.create_task(asyncio.to_thread(self._nvml.read), name="nvml")
        done, _ = await asyncio.wait({self._nvml_job}, timeout=NVML_DEADLINE_S)
        return self._nvml_job.result() if done else None

    async def _greet(self, at: datetime, runtime: EngineRuntime) -> None:
        """The first answer of an engine boot: say so, and open a run in the history."""
        if runtime.lease_expirations > self._expirations and self._run_id is not None:
            logger.warning("engine: the lease had run out, the engine went back to its fallback values")
        self._expirations = runtime.lease_expirations
        if self._said.get("boot") == (runtime.boot_id,):
            return
        self._estimator.restart_window()
        logger.info(
            "engine: steering vLLM %s at %s, boot %s, envelope %s",
            runtime.vllm_version,
            self.settings.engine.url,
            runtime.boot_id,
            ", ".join(f"{name}={value:g}" for name, value in runtime.envelope.items()),
        )
        self._run_id = await self._history.start_run(at, socket.gethostname(), self.settings.engine.url, runtime)
        self._said = {"boot": (runtime.boot_id,)}

    def _propose(self, view: View) -> list[Proposal]:
        proposals: list[Proposal] = []
        for policy in self._policies:
            self._states[policy.name], made = policy.decide(self._states[policy.name], view)
            proposals += made
        return proposals

    async def _act(self, runtime: EngineRuntime, changes: list[Decision], view: View) -> None:
        try:
            concluded = await self._actuator.carry_out(self._run_id, runtime, changes)
            self._history_condition.report(None)
        except HistoryUnavailable as error:
            self._history_condition.report(f"no change is made: {error}")
            return
        for decision in concluded:
            self._said[decision.knob] = (decision.status, decision.reason)
            self._arbiter.moved(decision.knob, view.now_s)
            _log(decision)
        self._estimator.restart_window()

    async def _record(self, decisions: list[Decision]) -> None:
        """Write what is new: a hold that goes on for the same reason is one row, not one each tick."""
        new = [d for d in decisions if self._is_news(d)]
        if not new:
            return
        try:
            await self._history.add(self._run_id, new)
            self._history_condition.report(None)
        except HistoryUnavailable as error:
            self._history_condition.report(str(error))
            return
        for decision in new:
            self._said[decision.knob] = (decision.status, decision.reason)
            _log(decision)

    def _is_news(self, decision: Decision) -> bool:
        before, ticks = self._holds.get(decision.knob, (decision.reason, 0))
        ticks = ticks + 1 if before is decision.reason else 1
        self._holds[decision.knob] = (decision.reason, ticks)
        if self._said.get(decision.knob) == (decision.status, decision.reason):
            return False
        return decision.status is not Status.HOLD or ticks >= HOLD_TICKS


def _draining(core: Any) -> bool:
    cap = core.knobs.get(MAX_NUM_SEQS)
    return cap is not None and cap.value is not None and core.running > cap.value


def _log(decision: Decision) -> None:
    level = logging.WARNING if decision.status in (Status.FAILED, Status.DIVERGED) else logging.INFO
    guards = "".join(f" [{guard}]" for guard in decision.guards)
    error = f" ({decision.error})" if decision.error else ""
    logger.log(level, "%s %s: %s%s%s", decision.knob, decision.status, decision.sentence, guards, error)
