"""The life of the daemon: build, start, wait, stop in reverse.

Belongs here: what is started in which order, signals, reload. Never: what a tick does.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from controller import settings as settings_module
from controller.loop import Loop
from controller.sensors.nvml import NvmlSensor
from controller.settings import Settings
from controller.threads import BoundedCall
from domain.errors import SettingsError
from store.database import database_url
from store.history import History

logger = logging.getLogger(__name__)

TICK_JOB = "tick"
STOP_DEADLINE_S = 8.0
NVML_LIMIT_S = 1.0


async def serve(settings: Settings, settings_file: Path | None) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP reads the settings again. Raises GovernorError when it cannot start."""
    stop, reload = asyncio.Event(), asyncio.Event()
    _on_signals(stop, reload)
    async with AsyncExitStack() as stack:
        history = History(database_url(settings.store.url))
        stack.push_async_callback(history.close)
        await history.open()
        nvml = NvmlSensor()
        await BoundedCall("nvml-open", nvml.open)(NVML_LIMIT_S)
        stack.push_async_callback(BoundedCall("nvml-close", nvml.close), NVML_LIMIT_S)
        if nvml.absence:
            logger.info("gpu: %s", nvml.absence)
        # Shorter than uvicorn's 5 s, so that a pooled connection is never one that vLLM has just closed.
        connector = aiohttp.TCPConnector(keepalive_timeout=4)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        loop = Loop(settings, session, history, nvml)
        scheduler = _schedule(loop)
        stack.callback(scheduler.shutdown, wait=False)
        reloading = asyncio.create_task(_reload_at(reload, loop, scheduler, settings_file), name="reload")
        stack.callback(reloading.cancel)
        scheduler.start()
        logger.info("started: mode %s, engine %s, history %s", settings.mode, settings.engine.url, history.where)
        await stop.wait()
        logger.info("stopping: the engine keeps its values until the lease runs out, then takes the fallback values")
        scheduler.pause()
        await _settle(loop)


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
    try:
        async with asyncio.timeout(STOP_DEADLINE_S):
            await loop.idle()
    except TimeoutError:
        logger.warning("stopping: the last tick did not finish within %.0f s", STOP_DEADLINE_S)


def _on_signals(stop: asyncio.Event, reload: asyncio.Event) -> None:
    running = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, stop.set)
    running.add_signal_handler(signal.SIGHUP, reload.set)


async def _reload_at(
    wanted: asyncio.Event, loop: Loop, scheduler: AsyncIOScheduler, settings_file: Path | None
) -> None:
    """One reload at a time; signals that come meanwhile make one more."""
    while True:
        await wanted.wait()
        wanted.clear()
        await _reload(loop, scheduler, settings_file)


async def _reload(loop: Loop, scheduler: AsyncIOScheduler, settings_file: Path | None) -> None:
    try:
        fresh = settings_module.load(settings_file)
    except SettingsError as error:
        logger.error("reload: the old settings stay: %s", error)
        return
    if fresh.store != loop.settings.store:
        logger.warning("reload: store.url changes at the next start only")
    if fresh.tick_s != loop.settings.tick_s:
        scheduler.reschedule_job(TICK_JOB, trigger="interval", seconds=fresh.tick_s)
    await loop.reconfigure(fresh)
    logging.getLogger().setLevel(fresh.log.level)
    logger.info("reload: mode %s, settings from %s", fresh.mode, settings_file)
