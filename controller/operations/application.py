"""All operations as one: what the faces are given.

Belongs here: building them over one loop and one history. Never: an operation.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from controller.alerting.ticked import Ticked
from controller.loop import Loop
from controller.operations.alerts import Alerts
from controller.operations.audit import Audit, Keep
from controller.operations.changes import RunTime
from controller.operations.check import Checks
from controller.operations.cost import Cost
from controller.operations.decisions import Decisions
from controller.operations.events import Events
from controller.operations.gpu import Gpu
from controller.operations.knobs import Knobs
from controller.operations.mode import ModeSwitch
from controller.operations.policies import Policies
from controller.operations.problems import Problem, problems
from controller.operations.publishing import Publisher
from controller.operations.purge import Purge
from controller.operations.readings import Readings
from controller.operations.reload import Apply, Reload
from controller.operations.replay import Replays
from controller.operations.rollback import RollbackSwitch
from controller.operations.signals import Signals
from controller.operations.status import Present, Status
from controller.sensors.nvml import NvmlSensor
from domain.cost import Tariff
from store.history import History


class Operations:
    """One for the daemon's life. Attributes are the subjects; `status` answers the present."""

    def __init__(
        self, loop: Loop, history: History, nvml: NvmlSensor, keep: Keep, file: Path | None, apply: Apply
    ) -> None:
        """`keep` takes entries of the audit; `file` is the settings'; `apply` is told when it was read again."""
        self._loop = loop
        self.history = history
        self._where = history.where  # looks at the disk, which may hang
        self.events = Events()
        self.audit = Audit(keep, loop.memory.settled, self.events, loop.clock)
        self.run_time = RunTime(loop.memory, loop.settings)
        self.signals = Signals(loop)
        self.knobs = Knobs(loop, self.audit)
        self.policies = Policies(loop, self.run_time, self.audit)
        self.mode = ModeSwitch(loop, self.run_time, self.audit)
        self.purge = Purge(loop, self.audit)
        self.rollback = RollbackSwitch(loop, self.audit)
        self.reload = Reload(loop, self.run_time, self.audit, file, apply)
        self.gpu = Gpu(nvml, self.audit)
        self.checks = Checks(loop, nvml, self.audit)
        self.alerts = Alerts(loop.alerting, self.audit, history)
        self.decisions = Decisions(history)
        self.readings = Readings(history)
        self.cost = Cost(history, self._tariff)
        self.replays = Replays(history, lambda: type(loop.settings.policies))
        self._present = Present(loop, self.knobs, self.mode, self.rollback, self.run_time)
        self._restoring: asyncio.Task[None] | None = None
        self._reopening: asyncio.Task[None] | None = None
        self._ticked = asyncio.Event()
        self._set_aside: Path | None = None
        loop.listeners.append(self._listen)
        loop.listeners.append(self.alerts.listen)
        loop.listeners.append(Publisher(loop, self.run_time, self.events, self.problems))

    async def restore(self) -> None:
        """Take up what was changed at run time before the start. Before the first tick; a history that does not answer
        is asked again after each tick, beside the next.
        """
        if not await self._restored():
            self._restoring = asyncio.create_task(self._restore(), name="run-time changes")

    def status(self) -> Status:
        """How everything fares now, what is wrong with its remedy among it (`problems`)."""
        return self._present.status(self._where, self.reload.failure)

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong now, worst first."""
        return problems(self._loop, self.run_time, self.reload.failure)

    async def close(self) -> None:
        """End every subscription and what runs beside the loop."""
        self.events.close()
        if self._restoring is not None:
            self._restoring.cancel()
        await self.replays.close()
        await self.history.close()

    def _listen(self, ticked: Ticked) -> None:
        self._ticked.set()
        moved = None if ticked.history is None else ticked.history.set_aside
        if moved != self._set_aside:  # else what was read last goes on being read where it was moved to
            self._set_aside = moved
            self._reopening = asyncio.create_task(self.history.close(), name="history is opened anew")

    async def _restored(self) -> bool:
        async with self.run_time.turn:
            settings = await self.run_time.restore(self._loop.clock().wall)
            if settings is not None and settings != self._loop.settings:
                await self._loop.adjust(settings)
        return settings is not None

    async def _restore(self) -> None:
        while True:
            await self._ticked.wait()
            self._ticked.clear()
            if await self._restored():
                return

    def _tariff(self) -> Tariff:
        prices = self._loop.settings.tariff
        return Tariff(prices.currency, prices.per_kwh, prices.per_gpu_hour, prices.per_network_gb)
