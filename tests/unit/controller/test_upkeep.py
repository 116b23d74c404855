"""The history's jobs with a real writer: they do what there is to do, and a tick never waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from sqlalchemy import func, select

from controller.clock import Now
from controller.history import upkeep as module
from controller.history.upkeep import Upkeep
from controller.settings import StoreSettings
from domain.stretch import reading
from store.database import database_url
from store.history import History
from store.models import ReadingRow
from store.writer import Writer

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Clock:
    """Both clocks of the machine; each look at them takes `step_s`."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.now = Now(1000.0, NOON)
        self._step_s = step_s

    def __call__(self) -> Now:
        self.advance(timedelta(seconds=self._step_s))
        return self.now

    def advance(self, by: timedelta) -> None:
        self.now = Now(self.now.monotonic_s + by.total_seconds(), self.now.wall + by)


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[Writer]:
    writer = Writer(database_url(str(tmp_path / "history.db")), "gpu1:8000")
    await writer.start()
    yield writer
    await writer.stop(5.0)


async def write(writer: Writer, minutes: int) -> None:
    """A reading every twenty seconds before noon."""
    began = NOON - timedelta(minutes=minutes)
    rows = [reading(began + timedelta(seconds=20 * n), [("a", 1.0)], {}) for n in range(3 * minutes)]
    await writer.run(lambda history: history.readings.add(rows), 10.0)


async def counts(writer: Writer) -> dict[int, int]:
    """Resolution to the readings that there are."""

    async def count(history: History) -> dict[int, int]:
        query = select(ReadingRow.resolution_s, func.count()).group_by(ReadingRow.resolution_s)
        async with history.database.reading() as session:
            return {row[0]: row[1] for row in await session.execute(query)}

    return await writer.run(count, 10.0)


async def test_minutes_are_made_and_what_is_too_old_goes(writer: Writer) -> None:
    clock = Clock()
    await write(writer, 120)
    upkeep = Upkeep(writer, StoreSettings(seconds_kept_hours=1.0), clock)
    clock.advance(timedelta(minutes=1))
    await upkeep.roll_up()
    assert await counts(writer) == {1: 360, 60: 120, 3600: 2}
    await upkeep.retain()
    assert await counts(writer) == {1: 177, 60: 120, 3600: 2}
    await upkeep.optimize()


async def test_new_bounds_count_from_the_next_run_on(writer: Writer) -> None:
    clock = Clock()
    await write(writer, 120)
    upkeep = Upkeep(writer, StoreSettings(), clock)
    clock.advance(timedelta(minutes=1))
    await upkeep.roll_up()
    await upkeep.retain()
    assert (await counts(writer))[1] == 360
    upkeep.configure(StoreSettings(seconds_kept_hours=0.5))
    await upkeep.retain()
    assert (await counts(writer))[1] == 87


async def test_a_job_that_takes_too_long_stops_and_goes_on_the_next_time(writer: Writer) -> None:
    await write(writer, 60)
    clock = Clock(step_s=module.ROLL_UP_LIMIT_S)
    clock.advance(timedelta(minutes=10))
    upkeep = Upkeep(writer, StoreSettings(), clock)
    await upkeep.roll_up()
    first = (await counts(writer))[60]
    assert first < 60
    for _ in range(40):
        await upkeep.roll_up()
    assert (await counts(writer))[60] == 60


async def test_a_broken_history_is_no_error_of_a_job(tmp_path: Path) -> None:
    writer = Writer(database_url(str(tmp_path)), "gpu1:8000")  # a directory is no database
    await writer.start()
    upkeep = Upkeep(writer, StoreSettings())
    for job in (upkeep.roll_up, upkeep.retain, upkeep.optimize):
        await job()
    await writer.stop(1.0)


async def test_writes_go_in_between_the_pieces_of_a_job(writer: Writer) -> None:
    await write(writer, 120)
    clock = Clock()
    clock.advance(timedelta(minutes=1))
    job = asyncio.create_task(Upkeep(writer, StoreSettings(), clock).roll_up())
    committed = 0
    while not job.done():
        assert await writer.flush(5.0)
        committed += 1
    assert committed >= 2


async def test_a_job_never_overlaps_itself_and_runs_once_after_the_host_slept(writer: Writer) -> None:
    scheduler = AsyncIOScheduler(timezone="UTC")
    Upkeep(writer, StoreSettings()).schedule(scheduler)
    jobs = {job.id: job for job in scheduler.get_jobs()}
    assert {name: job.trigger.interval_length for name, job in jobs.items()} == {
        "roll_up": 60,
        "retain": 600,
        "optimize": 3600,
    }
    for job in jobs.values():
        assert (job.max_instances, job.coalesce, job.misfire_grace_time) == (1, True, None)
