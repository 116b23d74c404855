"""The daemon's own runs of the checks: the last one, another one at once, what was good and no longer is.

Belongs here: when they run and what is remembered. Never: a check (controller/preflight/checks).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from controller.loop import Loop
from controller.operations.audit import Audit, Caller
from controller.operations.refusal import Kind, Refused
from controller.preflight import gathering
from controller.preflight.drift import Drift
from controller.preflight.result import Report
from controller.preflight.running import Runner
from controller.preflight.settings import CheckSettings
from controller.preflight.surroundings import EngineSeen, GpusSeen, Surroundings
from controller.sensors.nvml import NvmlSensor
from domain.errors import GovernorError, HistoryUnavailable
from domain.snapshot import Source

logger = logging.getLogger(__name__)

JOB, AGAIN_JOB = "check", "check again"
KEPT = "check.drift"
"""What was good, in the history: a restart forgets none of it."""
FIRST_AFTER_S = 20
"""The start is not held up by it."""
LIMIT_S = 120.0
"""Of a run."""
AGAIN_S = 300.0
"""While something is worse than it was, it is looked again so soon: the alert ends when it is mended."""


@dataclass(frozen=True, slots=True)
class Standing:
    """`report` None: there was no run yet."""

    report: Report | None
    worse: tuple[str, ...]
    """Checks that were good and are bad now."""


class Checks:
    """One for the daemon's life. A run takes the readings of the last tick and asks vLLM once more."""

    def __init__(self, loop: Loop, nvml: NvmlSensor, audit: Audit, runner: Runner | None = None) -> None:
        self._loop = loop
        self._nvml = nvml
        self._audit = audit
        self._runner = runner or Runner()
        self._turn = asyncio.Lock()
        self._report: Report | None = None
        self._drift: Drift | None = None
        self._scheduler: AsyncIOScheduler | None = None

    @property
    def last(self) -> Standing:
        """The last run."""
        return Standing(self._report, () if self._drift is None else tuple(sorted(self._drift.worse)))

    def schedule(self, scheduler: AsyncIOScheduler, settings: CheckSettings) -> None:
        """From now on, every `interval_s`; called again it takes another interval."""
        self._scheduler = scheduler
        scheduler.add_job(
            self.look,
            "interval",
            seconds=settings.interval_s,
            id=JOB,
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
            replace_existing=True,
            next_run_time=datetime.now(UTC) + timedelta(seconds=FIRST_AFTER_S),
        )

    def _look_soon_again(self) -> None:
        if self._scheduler is not None:
            at = datetime.now(UTC) + timedelta(seconds=AGAIN_S)
            self._scheduler.add_job(
                self.look, "date", run_date=at, id=AGAIN_JOB, misfire_grace_time=None, replace_existing=True
            )

    async def run(self, who: Caller) -> Standing:
        """Look again now. Raises Refused (UNAVAILABLE) where it takes too long."""
        async with self._audit.entry(who, "check.run", "checks"):
            try:
                await self._look()
            except TimeoutError as error:
                reason = f"it took longer than {LIMIT_S:g} s"
                raise Refused(Kind.UNAVAILABLE, "check", reason, "see the daemon's log, and try again") from error
        return self.last

    async def look(self) -> None:
        """A run of the daemon's own. Raises nothing but cancellation: checks never stop what is checked."""
        try:
            await self._look()
        except (GovernorError, TimeoutError) as error:
            logger.warning("check: cannot look: %s", error or "it took too long")
        except Exception:
            logger.exception("check: cannot look")

    async def _look(self) -> None:
        async with self._turn, asyncio.timeout(LIMIT_S):
            around = await gathering.gather(self._loop.settings, self._see_gpus)
            report = await self._runner.run(self._with_readings(around))
            await self._follow(report)
            self._report = report

    async def _follow(self, report: Report) -> None:
        before = self._drift
        if before is None:
            try:
                before = Drift.from_json(await self._loop.memory.get(KEPT))
            except HistoryUnavailable as error:
                logger.info("check: what was good before the start is not known: %s", error)
                before = Drift()
        after = before.follow(report.results)
        for result in report.results:
            if result.name in after.worse - before.worse:
                logger.warning("check: %s was good and is not: %s", result.name, result.why)
        self._drift = after
        if after != before:
            self._loop.memory.put(KEPT, report.at, after.to_json())
        self._loop.observed.checks_worse = len(after.worse)
        if after.worse:
            self._look_soon_again()

    async def _see_gpus(self, _engine: EngineSeen) -> GpusSeen:
        """As the last tick read them: NVML is not asked beside the ticks."""
        snapshot = self._loop.observed.snapshot
        if snapshot is None:
            return GpusSeen(problem="no tick has read the GPUs yet")
        if snapshot.gpus is not None:
            return GpusSeen(snapshot.gpus)
        return GpusSeen(absence=self._nvml.absence, problem=snapshot.problems.get(Source.GPU))

    def _with_readings(self, around: Surroundings) -> Surroundings:
        observed, engine = self._loop.observed, around.engine
        if observed.view is None or not observed.fresh(self._loop.clock().monotonic_s):
            return around
        view, stats = observed.view, None if observed.snapshot is None else observed.snapshot.engine
        pools = [] if stats is None else [core.kv_pool_bytes for core in stats.cores]
        known = [pool for pool in pools if pool is not None]
        return replace(
            around,
            engine=replace(
                engine,
                requests_per_s=view.requests_per_s,
                rate_over=f"{view.window_s:.0f} s",
                pool_bytes=sum(known) if known and len(known) == len(pools) else engine.pool_bytes,
            ),
        )
