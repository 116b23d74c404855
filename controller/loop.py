"""One tick: sense, estimate, decide, act, record.

Belongs here: the order of a tick and what is carried from one to the next. Never: a rule, a metric's name, SQL.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from controller import clock as system_clock
from controller.acting.actuator import Actuator
from controller.acting.orders import Order, Orders
from controller.acting.overrides import Overrides
from controller.acting.rollback import Rollback, Rollbacks, policy_of
from controller.alerting import Alerting, Ticked
from controller.backfill import Backfill
from controller.deciding.arbiter import ACTING_MODES, Arbiter
from controller.deciding.circumstances import Series
from controller.deciding.order import Decided, Deciding
from controller.deciding.standing import fallback, mode_in_force
from controller.engine import holder
from controller.engine.client import EngineClient
from controller.engine.connections import Connections
from controller.engine.link import EngineLink
from controller.estimation import BACKFILLED, STALE_TICKS, Estimator
from controller.history.boots import Boots
from controller.history.memory import Memory
from controller.history.metering import Metering
from controller.history.outcome import Outcomes
from controller.history.recorder import Recorder
from controller.history.recording import Recording
from controller.history.view_codec import Frame
from controller.metrics.observed import Observed
from controller.objectives.chooser import Objectives
from controller.sensing import Sensing
from controller.sensors.engine import EngineStatsSensor
from controller.sensors.nvml import NvmlSensor
from controller.sensors.prometheus import PrometheusSensor
from controller.sensors.vllm import VllmSensor
from controller.settings import Settings
from controller.watch import Condition, Conditions
from domain.decision import Decision, Mode, Proposal, Status
from domain.errors import RecoverableError
from domain.outcome import Refuted
from domain.runtime import EngineRuntime
from domain.snapshot import Snapshot
from domain.view import View
from policies.base import Policy
from store.writer import Writer

logger = logging.getLogger(__name__)

SPARE_S = 5.0
"""What a tick may take beyond its calls to the engine, before it is cut off."""


class Loop:
    """Steers one engine. `tick` is called by the scheduler; `reconfigure` swaps its settings."""

    def __init__(
        self,
        settings: Settings,
        connections: Connections,
        writer: Writer,
        nvml: NvmlSensor,
        clock: Callable[[], system_clock.Now] = system_clock.now,
    ) -> None:
        self.settings = settings
        self._connections = connections
        self.clock = clock
        self._recording = Recording(writer, settings.store.recording_hours, settings.tick_s)
        self._recorder = Recorder(writer, self._recording, settings.store.commit_timeout_s)
        self.memory = Memory(writer, settings.store.commit_timeout_s)
        self._metering = Metering(settings.tick_s)
        self._outcomes = Outcomes(settings.outcomes, self.memory)
        self._series = Series(clock().wall.isoformat())
        self._nvml = nvml
        self._pace = Condition("pace")
        self._diagnoses = Conditions("diagnosis")
        self._arbiter = Arbiter(settings.tick_s)
        self._deciding = Deciding(settings.policies, Mode.PAUSED, self._arbiter)
        self._rollbacks = Rollbacks(self.memory)
        self.overrides = Overrides(self.memory, self._arbiter)
        self._orders = Orders()
        self.listeners: list[Callable[[Ticked], None]] = []
        """Called at the end of each tick, one that failed too."""
        self._objectives = Objectives(self.memory, settings)
        self._boots = Boots(self._recorder)
        self._ticking = asyncio.Lock()
        self.observed = Observed(settings.mode)
        self.alerting = Alerting(settings, writer, self.memory, self.observed, clock)
        self._estimator = Estimator(settings.tick_s)
        self._configure(settings)

    async def reconfigure(self, settings: Settings) -> None:
        """Take new settings between two ticks; policies start afresh, the lease gets the new mode's fallback values.

        Raises SettingsError when the engine or a receiver of alerts cannot be used as they say; the old ones then stay.
        """
        async with self._ticking:
            Alerting.check(settings)
            await self._connections.use(settings.engine)
            await self.close()
            self._estimate_on(settings)
            self._objectives.configure(settings)
            self._configure(settings)
            await self.alerting.configure(settings)

    async def adjust(self, settings: Settings) -> None:
        """Take another mode or other parameters of policies between two ticks; all else goes on."""
        async with self._ticking:
            before, self.settings = self.settings, settings
            self._choose_policies()
            if settings.policies.alert_thresholds != before.policies.alert_thresholds:
                await self.alerting.configure(settings)

    def _estimate_on(self, settings: Settings) -> None:
        """Trends and the energy total outlive a change of settings, unless the pace or the engine is another."""
        if (settings.tick_s, settings.engine.url) == (self.settings.tick_s, self.settings.engine.url):
            self._estimator.restart_window()
        else:
            self._estimator = Estimator(settings.tick_s)
            self._metering = Metering(settings.tick_s)

    async def close(self) -> None:
        """Stop what runs beside the ticks, hand over what is kept back."""
        await self._backfill.close()
        await self._prometheus.close()
        self._recorder.count(self._metering.close())
        self._recorder.close()

    def between_ticks(self) -> AbstractAsyncContextManager[object]:
        """Entered once no tick runs; none begins before it is left."""
        return self._ticking

    def _configure(self, settings: Settings) -> None:
        self.settings = settings
        self._limit_s = 5 * settings.engine.timeout_s + SPARE_S
        self.observed.fresh_for_s = self._limit_s + STALE_TICKS * settings.tick_s
        engine = settings.engine
        self._nvml.configure(settings.gpu)
        client = EngineClient.over(self._connections.admin, engine)
        self._prometheus = PrometheusSensor(settings.prometheus, self.clock)
        self._link = EngineLink(client, engine.lease_s, {}, holder.name(settings.node))
        self._sensing = Sensing(
            self.clock,
            self._link,
            VllmSensor(self._connections.vllm, engine.url, engine.timeout_s),
            EngineStatsSensor(client),
            self._nvml,
            self._prometheus,
        )
        self._actuator = Actuator(client, self._recorder, engine.lease_s)
        self._recording.configure(settings.store.recording_hours, settings.tick_s)
        self._recorder.commit_timeout_s = self.memory.timeout_s = settings.store.commit_timeout_s
        self._metering.tick_s = settings.tick_s
        self._outcomes.settings = settings.outcomes
        self._backfill = Backfill(self._prometheus, BACKFILLED)
        self._arbiter.tick_s, self._arbiter.settings = settings.tick_s, settings.guards
        self._choose_policies()

    def _choose_policies(self) -> None:
        """Those of the mode that is in force, or what a rollback holds; the lease's fallback goes with them."""
        rollback, window = self._rollbacks.current, self._objectives.window
        self._chosen_under = self.held_by
        mode = mode_in_force(self.settings.mode, window, rollback, self.held_by)
        held = None if rollback is None else (policy_of(rollback, self._boots.runtime),)
        before, self._deciding = self._deciding, Deciding(self.settings.policies, mode, self._arbiter, held)
        self._deciding.adopt(before)
        self._link.fallback = fallback(self.settings, rollback)
        self.observed.mode, self.observed.maintenance = mode, window

    async def restore(self) -> None:
        """Take up what was known and in force when the daemon ended. Before the first tick."""
        await self._rollbacks.restore()
        await self.overrides.restore(self.clock())
        await self._outcomes.restore(self.clock())
        self._metering.resume(await self._recorder.ledger_end(self.clock().wall))
        self._choose_policies()
        await self.alerting.restore()

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Those that propose now."""
        return self._deciding.policies

    @property
    def held_by(self) -> str | None:
        """The other daemon that steers this engine."""
        return self._link.held_by

    @property
    def rollback(self) -> tuple[Rollback | None, bool]:
        """What is in force, and whether it would survive a restart."""
        return self._rollbacks.current, self._rollbacks.kept

    async def roll_back(self) -> None:
        """The seeds' rollback, in force as far as the engine lets it be when this returns."""
        async with self._ticking:
            await self._rollbacks.enter(self.clock().wall, self._boots.runtime, self.settings.policies.static)
            self._choose_policies()
        await self.tick()

    async def undo(self) -> bool:
        """Back to the values from before and the mode that is configured; False when there is no rollback."""
        async with self._ticking:
            if not await self._rollbacks.leave(self.clock().wall):
                return False
            self._choose_policies()
        await self.tick()  # sets the values
        await self.tick()  # sees them
        return True

    async def order(self, proposals: Sequence[Proposal]) -> Order:
        """Have these decided and carried out at once, beside what the policies want."""
        order = self._orders.give(proposals)
        await self.tick()
        return order

    async def tick(self) -> None:
        """One tick; raises nothing but cancellation. One that fails is counted and logged, and the loop goes on."""
        started = self.clock()
        ticked = Ticked(started.monotonic_s, started.wall)
        try:
            async with self._ticking, asyncio.timeout(self._limit_s):
                await self._tick(ticked)
            ticked.failed = False
        except RecoverableError as error:
            logger.warning("tick failed: %s", error)
        except TimeoutError:
            logger.error("tick failed: it took longer than %.0f s", self._limit_s)
        except Exception:
            logger.exception("tick failed")
        took_s = self.clock().monotonic_s - started.monotonic_s
        self.observed.end_tick(took_s, failed=ticked.failed)
        self.observed.history = ticked.history = self._recorder.end_tick()
        ticked.news, ticked.verdicts = self._recorder.take_news()
        self._pace.report("ticks take longer than tick_s, some are left out" if took_s > self.settings.tick_s else None)
        await self.alerting.tick(ticked)
        for listener in self.listeners:
            try:
                listener(ticked)
            except Exception:  # the next tick is to come all the same
                logger.exception("what the tick came to could not be told")

    async def _tick(self, ticked: Ticked) -> None:
        snapshot = ticked.snapshot = await self._sensing.snapshot()
        runtime, ticked.contested = snapshot.runtime, self._link.contested
        if runtime is not None:
            steers = self.settings.mode in ACTING_MODES and self.held_by is None
            if self._boots.meet(snapshot.wall, runtime, self.settings.engine.url, steers=steers):
                self._estimator.restart_window()
        turned = self._objectives.turn(snapshot.wall)
        if await self._rollbacks.settle(snapshot.wall, runtime) or turned or self.held_by != self._chosen_under:
            self._choose_policies()
        await self.overrides.settle(system_clock.Now(snapshot.now_s, snapshot.wall))
        if past := self._backfill.take(snapshot.now_s):
            self._estimator.backfill(past)
        view = self._estimator.update(snapshot, await self._objectives.now(snapshot))
        self.observed.see(snapshot, view)
        events = self._objectives.learn(snapshot, view, self._deciding.mode)
        refuted, undo = self._outcomes.see(view, self._deciding.mode)
        asked = self.alerting.wishes.ask(snapshot.now_s, snapshot.wall)
        orders = self._orders.take()
        ordered = [one for order in orders for one in order.proposals]
        decided = self._decide(snapshot, view, refuted, (*undo, *ordered), asked)
        ticked.take(decided.view, decided.told, decided.decisions)
        context = self._series.context(self._deciding, refuted, undo, asked, ordered)
        self._recorder.picture(Frame(snapshot.wall, decided.view, context))
        self._recorder.read(snapshot.wall, decided.view, {} if runtime is None else self._boots.values)
        self._recorder.count(self._metering.take(snapshot))
        changes = [d for d in decided.decisions if d.status is Status.INTENDED]
        others = [d for d in decided.decisions if d.status is not Status.INTENDED]
        concluded = await self._act(runtime, changes) if changes and runtime is not None else []
        ticked.decisions = [*concluded, *others]
        self.observed.decide(ticked.decisions)
        for order in orders:
            order.settle(ticked.decisions)
        self._outcomes.end_tick(view, snapshot.wall, self._recorder)
        self._recorder.note([*events, *others])
        if runtime is not None and any(core.draining for core in runtime.cores):
            self._estimator.restart_window()  # what completes now still ran under the old cap

    def _decide(
        self, snapshot: Snapshot, view: View, refuted: frozenset[Refuted], undo: Sequence[Proposal], asked: str | None
    ) -> Decided:
        decided = self._deciding.decide(snapshot.wall, view, refuted, undo, asked)
        self.observed.view, self.observed.diagnoses = decided.view, decided.diagnoses
        self._diagnoses.report({one.cause: one.sentence for one in decided.diagnoses})
        return decided

    async def _act(self, runtime: EngineRuntime, changes: list[Decision]) -> list[Decision]:
        """Answers the changes with what became of them."""
        try:
            return await self._actuator.carry_out(runtime, changes)
        finally:
            self._estimator.restart_window()
