"""Writes a year into a file through the store's own functions, so that each row is as large as the daemon makes it.

Belongs here: what is written in which portions. Never: how a row looks, what is in it (year.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from bench.store.pictures import chunks
from bench.store.year import ACTIONS, ALERTS, DECISIONS, DELIVERIES_AN_ALERT, Year
from controller.clock import Now
from controller.history.upkeep import Upkeep
from controller.settings import StoreSettings
from domain.alert import Severity
from domain.audit import Action
from domain.incident import Delivery, DeliveryStatus, Incident, IncidentState, Notification
from store import alerts, audit, decisions, ledger, readings, recordings, runs
from store.database import Database, database_url, migrate
from store.writer import Writer

NODE = "gpu1:8000"
ENGINE_URL = "http://127.0.0.1:8000"
RULE = "InterTokenLatencyHigh"
PORTION = 2_000
"""Rows of one transaction."""
MORE_THAN_ALL = 1_000_000
STOP_LIMIT_S = 60.0

Told = Callable[[str, int], None]
"""Called with the table and how many rows were written since the last time."""
Part = Callable[[Database, Year, Told], Awaitable[None]]
_T = TypeVar("_T")


async def fill(path: Path, year: Year, told: Told) -> None:
    """Write all of it. Raises HistoryUnavailable."""
    await _through(path, year, told, _runs, _ledger)
    await upkeep(path, year)  # the room that the ledger's minutes leave is used by the rest, as in a year of running
    await _through(path, year, told, _decisions, _readings, _recordings, _actions, _alerts)
    await upkeep(path, year)


async def _through(path: Path, year: Year, told: Told, *parts: Part) -> None:
    database = Database(database_url(str(path)), NODE)
    try:
        await migrate(database.engine)
        for part in parts:
            await part(database, year, told)
    finally:
        await database.engine.dispose()


async def upkeep(path: Path, year: Year) -> None:
    """The daemon's own jobs, until nothing is left: what is fine and old is rolled up, the planner's statistics are
    made. Their clock stands still, so that they do not stop half-way.
    """
    writer = Writer(database_url(str(path)), NODE)
    await writer.start()
    try:
        jobs = Upkeep(writer, StoreSettings(), lambda: Now(0.0, year.until))
        await jobs.roll_up()
        await jobs.retain()
        await jobs.optimize()
    finally:
        await writer.stop(STOP_LIMIT_S)


async def _runs(database: Database, year: Year, told: Told) -> None:
    async with database.transaction() as session:
        for at, runtime in year.runs():
            await runs.start(session, NODE, at, ENGINE_URL, runtime)
            told("runs", 1)


async def _decisions(database: Database, year: Year, told: Told) -> None:
    for portion in _portions(year.decisions()):
        async with database.transaction() as session:
            for number, those in _by_run(year, portion):
                await decisions.add(session, NODE, number, those)
        told("decisions", len(portion))


def _by_run(year: Year, portion: Iterable[Any]) -> Iterable[tuple[int, list[Any]]]:
    found: dict[int, list[Any]] = {}
    for one in portion:
        found.setdefault(year.run_number(one.at), []).append(one)
    return found.items()


async def _readings(database: Database, year: Year, told: Told) -> None:
    for portion in _portions(year.readings()):
        async with database.transaction() as session:
            await readings.add(session, NODE, [replace(one, run_id=year.run_number(one.at)) for one in portion])
        told("readings", len(portion))


async def _ledger(database: Database, year: Year, told: Told) -> None:
    for portion in _portions(year.ledger()):
        async with database.transaction() as session:
            for number, those in _by_run(year, portion):
                await ledger.add(session, NODE, number, those)
        told("ledger", len(portion))


async def _recordings(database: Database, year: Year, told: Told) -> None:
    since = year.until - timedelta(seconds=year.size.seconds)
    for portion in _portions(chunks(Random(2), since, year.until), 100):
        async with database.transaction() as session:
            for chunk in portion:
                await recordings.add(session, NODE, year.run_number(chunk.from_at), chunk, MORE_THAN_ALL)
        told("recordings", len(portion))


async def _actions(database: Database, year: Year, told: Told) -> None:
    async with database.transaction() as session:
        for number, at in enumerate(year.moments(ACTIONS)):
            detail = {"reason": "traffic is moved to another engine", "values": {"max_num_seqs": 128}}
            await audit.add(
                session, NODE, Action(at, "10.1.2.3", "rollback", "/api/v1/rollback", "ok", detail, f"{number:032x}")
            )
            told("actions", 1)


async def _alerts(database: Database, year: Year, told: Told) -> None:
    for portion in _portions(enumerate(year.moments(ALERTS))):
        sent = [_delivery(number, to, at) for number, at in portion for to in range(DELIVERIES_AN_ALERT)]
        async with database.transaction() as session:
            await alerts.save(session, NODE, year.until, [_incident(at) for _, at in portion], (), None)
            await alerts.mark(session, NODE, sent)
        told("alerts", len(portion))
        told("deliveries", len(sent))


def _incident(at: datetime) -> Incident:
    over_at = at + timedelta(minutes=5)
    return Incident(
        rule=RULE,
        severity=Severity.WARNING,
        labels={"alertname": RULE, "severity": "warning", "instance": NODE, "model": "llama-3-70b"},
        state=IncidentState.RESOLVED,
        starts_at=at,
        updated_at=over_at,
        ends_at=over_at,
        value=0.2719,
        annotations={
            "summary": "Inter-token latency is over its objective.",
            "description": "27.2% of 3441 inter_token_latency samples are over 50 ms (5.0% allowed) for 2 min.",
        },
    )


def _delivery(number: int, receiver: int, at: datetime) -> Delivery:
    notification = Notification(
        uid=f"{number:08x}{receiver:08x}",
        receiver=f"receiver-{receiver}",
        group_key=f'{{}}:{{alertname="{RULE}",instance="{NODE}"}}',
        group_labels={"alertname": RULE},
        incidents=(_incident(at),),
        created_at=at,
    )
    return Delivery(notification, DeliveryStatus.DELIVERED, 1, delivered_at=at + timedelta(seconds=1))


def _portions(rows: Iterator[_T], size: int = PORTION) -> Iterator[list[_T]]:
    while portion := list(islice(rows, size)):
        yield portion


def rows_to_write(year: Year) -> int:
    """About how many rows the whole year has, for showing how far it is."""
    size = year.size
    stretches = size.hours + size.minutes + size.seconds
    return size.of(DECISIONS) + stretches + 5 * size.hours + size.minutes + size.seconds // 30 + size.of(3 * ALERTS)
