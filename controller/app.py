"""The life of the daemon: build, start, wait, stop in reverse.

Belongs here: what is started in which order, signals, reload. Never: what a tick does.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from controller.api.server import ApiServer
from controller.api.table import table
from controller.collector import Collector
from controller.ending import Ending
from controller.engine.connections import Connections
from controller.history.upkeep import Upkeep
from controller.loop import Loop
from controller.operations.application import Operations
from controller.operations.audit import Caller
from controller.operations.refusal import Refused
from controller.sensors.nvml import NvmlSensor
from controller.settings import Settings
from controller.supervision.supervisor import Supervisor
from store.database import MB, Limits, database_url
from store.history import History
from store.writer import Writer
from store.writes import AddAction

logger = logging.getLogger(__name__)

TICK_JOB = "tick"
STOP_S = 9.0
"""From the signal to the end, whatever hangs: what follows is cut off one by one, the history's last rows last."""
TICK_S, ALERTS_S, NVML_S, FLUSH_S = 4.0, 2.0, 0.5, 5.0
LEAST_FLUSH_S = 1.0
"""So long the history has to write what waits, however much time the others took."""


async def serve(settings: Settings, settings_file: Path | None) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP reads the settings again. Raises GovernorError when it cannot start."""
    stop, reload, ending = asyncio.Event(), asyncio.Event(), Ending(STOP_S)
    _on_signals(stop, reload)
    async with AsyncExitStack() as stack:
        writer = _writer(settings)
        stack.push_async_callback(lambda: writer.stop(min(FLUSH_S, ending.left_s(LEAST_FLUSH_S))))
        await writer.start()
        nvml = NvmlSensor(settings.gpu)
        await nvml.open()
        stack.push_async_callback(ending.within, NVML_S, "NVML", nvml.close)
        if nvml.absence:
            logger.info("gpu: %s", nvml.absence)
        connections = await stack.enter_async_context(Connections(settings.engine))
        loop = Loop(settings, connections, writer, nvml)
        stack.push_async_callback(ending.within, ALERTS_S, "the sending of alerts", loop.alerting.close)
        stack.push_async_callback(loop.close)
        await loop.restore()
        scheduler, upkeep, collector = _schedule(loop), Upkeep(writer, settings.store), Collector()
        operations = _operations(loop, writer, nvml, settings_file, upkeep, scheduler)
        stack.push_async_callback(operations.close)
        await operations.restore()
        api = ApiServer(settings.api, table(operations, loop, settings.api))
        stack.push_async_callback(api.stop)
        await api.start()
        upkeep.schedule(scheduler)
        operations.checks.schedule(scheduler, loop.settings.check)
        supervisor = Supervisor(loop.observed)
        stack.callback(supervisor.close)
        reloading = asyncio.create_task(_reload_at(reload, operations, supervisor), name="reload")
        stack.callback(reloading.cancel)
        collector.settle()
        loop.listeners.extend((collector, supervisor))
        scheduler.start()
        stack.callback(scheduler.shutdown, wait=False)
        gc.collect()
        gc.freeze()  # what the start made stays: left alone, Python looks more often at what comes and goes
        supervisor.ready()  # whether or not the engine is there
        logger.info("started: mode %s, engine %s, history %s", loop.observed.mode, settings.engine.url, writer.where)
        await stop.wait()
        ending.begin()
        supervisor.stopping()
        logger.info("stopping: the engine keeps its values until the lease runs out, then takes the fallback values")
        scheduler.pause()
        operations.events.close()  # or the port would wait for those who listen
        await ending.within(TICK_S, "the last tick", lambda: _settle(loop))


def _writer(settings: Settings) -> Writer:
    store = settings.store
    limits = Limits(file_max_bytes=round(store.max_mb * MB), wal_max_bytes=round(store.wal_max_mb * MB))
    return Writer(database_url(store.url), settings.node, limits, store.queue)


def _schedule(loop: Loop) -> AsyncIOScheduler:
    """One tick at a time; ticks missed while the host slept or a tick was slow are made up by one."""
    # An overlong tick leaves the next ones out; the loop says so once, the scheduler need not say it each time.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    scheduler = AsyncIOScheduler(timezone="UTC")
    scheduler.add_job(
        loop.tick,
        "interval",
        seconds=loop.settings.tick_s,
        id=TICK_JOB,
        max_instances=1,
        coalesce=True,
        misfire_grace_time=None,
        next_run_time=datetime.now(UTC),
    )
    return scheduler


async def _settle(loop: Loop) -> None:
    """Let a tick that runs finish, so that its outcome reaches the history."""
    async with loop.between_ticks():
        return


def _operations(
    loop: Loop,
    writer: Writer,
    nvml: NvmlSensor,
    settings_file: Path | None,
    upkeep: Upkeep,
    scheduler: AsyncIOScheduler,
) -> Operations:
    """What the faces are given. It reads the history beside the writer."""

    async def apply(before: Settings, settings: Settings) -> None:
        upkeep.configure(settings.store)
        if settings.tick_s != before.tick_s:
            scheduler.reschedule_job(TICK_JOB, trigger="interval", seconds=settings.tick_s)
        logging.getLogger().setLevel(settings.log.level)
        operations.checks.schedule(scheduler, settings.check)  # what was set anew is looked at anew

    history = History(writer.url, writer.node)
    operations = Operations(loop, history, nvml, lambda action: writer.put(AddAction(action)), settings_file, apply)
    return operations


def _on_signals(stop: asyncio.Event, reload: asyncio.Event) -> None:
    running = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, stop.set)
    running.add_signal_handler(signal.SIGHUP, reload.set)


async def _reload_at(wanted: asyncio.Event, operations: Operations, supervisor: Supervisor) -> None:
    """One reload at a time; signals that come meanwhile make one more."""
    while True:
        await wanted.wait()
        wanted.clear()
        supervisor.reloading()
        try:
            with contextlib.suppress(Refused):  # it is logged, and the old settings stay
                await operations.reload.run(Caller("SIGHUP"))
        finally:
            supervisor.ready()
