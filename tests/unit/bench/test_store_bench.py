"""What the store bench makes, asks and counts, on a history of some hours. Nothing here says how fast it is."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.store import size, summary
from bench.store.fill import NODE, fill
from bench.store.queries import Timed as TimedQuery
from bench.store.queries import time_all
from bench.store.samples import DATA
from bench.store.ticks import Ticks
from bench.store.writing import HandedOver, Most, _tick, hand_over, most
from bench.store.year import ALERTS, DECISIONS, DELIVERIES_AN_ALERT, Size, Year
from domain.decision import Status
from domain.incident import DeliveryStatus, IncidentState
from domain.stretch import AS_READ_S, HOUR_S, MINUTE_S
from store.database import database_url
from store.history import History
from store.rows import to_values
from store.writes import AddDecisions, AddLedger, AddReading, Conclude, Judge, Record
from tests.writers import locked, writing

UNTIL = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
"""As the bench has it: the commands count back from now."""
HOURS = Year(UNTIL, Size(0.001))


def quiet(*_: object) -> None:
    """Told to nobody."""


def test_a_whole_year_is_kept_as_the_settings_keep_it() -> None:
    whole = Size()
    assert (whole.seconds, whole.minutes, whole.hours) == (86_400, 31 * 24 * 60, 366 * 24)
    assert whole.of(DECISIONS) == 200_000


def test_the_readings_follow_each_other_without_a_gap_and_without_overlapping() -> None:
    days = Year(UNTIL, Size(0.01))
    at, seen = days.since, Counter[int]()
    for one in days.readings():
        assert one.at == at
        at += timedelta(seconds=one.resolution_s)
        seen[one.resolution_s] += 1
    assert at == UNTIL
    assert seen == {HOUR_S: 81, MINUTE_S: 6 * 60, AS_READ_S: 3600}


def test_the_same_seed_makes_the_same_decisions_and_each_has_a_uid_of_its_own() -> None:
    first, second = ([*Year(UNTIL, Size(0.001)).decisions()] for _ in range(2))
    assert first == second
    assert len({one.uid for one in first}) == len(first) == 200
    assert [one.at for one in first] == sorted(one.at for one in first)


def test_decisions_are_as_large_as_those_that_a_governor_wrote() -> None:
    def weight(row: dict[str, object]) -> int:
        return len(json.dumps([row["sentence"], row["evidence"], row["guards"], row["diagnoses"], row["error"]]))

    stored = [json.loads(line) for line in (DATA / "decisions.jsonl").read_text().splitlines()]
    real = sum(one["times"] * weight(one) for one in stored) / sum(one["times"] for one in stored)
    made = [to_values(NODE, 1, one) for one in Year(UNTIL, Size(0.01)).decisions()]
    assert sum(map(weight, made)) / len(made) == pytest.approx(real, rel=0.15)


def test_no_two_entries_of_the_ledger_have_one_key_and_together_they_cover_the_time() -> None:
    entries = [*HOURS.ledger()]
    assert len({(one.at, one.resolution_s, tuple(one.setting.items())) for one in entries}) == len(entries)
    covered_s = sum(one.seconds for one in entries)
    assert covered_s == pytest.approx((UNTIL - HOURS.since).total_seconds(), rel=0.01)


def test_a_minute_of_ticks_has_the_normal_rate_of_each_kind() -> None:
    ticks, kinds = Ticks(HOURS), Counter[type]()
    intents = 0
    for _ in range(600):
        intent, writes = ticks.next()
        intents += intent is not None
        kinds.update(type(write) for write in writes)
        if intent is not None:
            assert intent.decisions[0].status is Status.INTENDED
    assert (kinds[AddReading], kinds[Record], kinds[AddLedger]) == (600, 20, 10)
    assert kinds[AddDecisions] + intents == 120
    assert kinds[Conclude] == intents >= kinds[Judge] > 0


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("year") / "history.db"
    asyncio.run(fill(path, HOURS, quiet))
    return path


def test_every_command_gets_an_answer_from_the_year_that_was_made(filled: Path) -> None:
    timed = {one.line: one for one in time_all(filled, HOURS, 2)}
    assert all(len(one.ms) == len(one.cpu_ms) == 2 and min(one.ms) > 0 for one in timed.values())
    empty = {line for line, one in timed.items() if one.answer_bytes < 10}
    assert empty >= {"decisions --status diverged", f"decisions --node {NODE} --status diverged"}
    assert not empty & {"decisions", "decisions --changes", "decisions --since 24h", "times --since 24h"}
    commands = {line.split()[0] for line, one in timed.items() if one.counts}
    assert commands == {"decisions", "explain", "at", "times", "cost"}


def test_every_table_with_a_goal_has_rows_and_the_sizes_add_up_to_the_file(filled: Path) -> None:
    shares = size.by_table(filled)
    if shares is None:
        pytest.skip("this SQLite has no dbstat")
    assert sum(shares.values()) == pytest.approx(filled.stat().st_size, rel=0.02)
    assert shares["readings"] > shares["decisions"] > shares["ledger"] > shares["runs"] > 0


async def test_each_alert_that_is_over_has_been_told_to_every_receiver(filled: Path) -> None:
    history = History(database_url(str(filled)), NODE)
    incidents, told = await history.alerts.incidents(), await history.alerts.deliveries()
    await history.close()
    assert len(incidents) == HOURS.size.of(ALERTS)
    assert {one.state for one in incidents} == {IncidentState.RESOLVED}
    assert [one.status for one in told] == [DeliveryStatus.DELIVERED] * DELIVERIES_AN_ALERT * len(incidents)


async def test_all_that_is_handed_over_is_in_the_file_when_the_clock_stops(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    found = await hand_over(path, Ticks(HOURS), 0.2, 100.0, quiet)
    fast = await most(path, Ticks(HOURS, seed=4), 0.2, quiet, backlog=50)
    assert (len(found.wall_ms), found.dropped, fast.dropped) == (20, 0, 0)
    history = History(database_url(str(path)))
    try:
        assert len(await history.decisions.select()) == 4 + fast.ticks // 5
        assert await history.decisions.select(status=Status.APPLIED)
    finally:
        await history.close()


async def test_what_a_change_waits_for_the_disk_is_told_apart_from_handing_over(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    async with writing(path) as writer:
        await writer.flush(10.0)
        with locked(path):
            found, ticks = HandedOver(1.0), Ticks(HOURS)
            while not found.intent_ms:
                await _tick(found, writer, ticks)
    assert statistics.median(found.wall_ms) < 40.0 < max(found.intent_ms)


def test_only_commands_with_a_goal_count_for_the_slowest() -> None:
    timed = [TimedQuery("a", True, (3.0, 9.0, 4.0), (1.0, 2.0, 3.0), 5), TimedQuery("b", False, (70.0,), (60.0,), 1)]
    found = summary.of_queries(timed)
    assert (found["query_ms_max"], found["query_ms_median_max"]) == (9.0, 4.0)


def test_a_writer_that_is_too_slow_comes_out_below_the_goal() -> None:
    assert summary.of_most(Most(ticks=1500, seconds=30.0, dropped=0))["writer_x"] == 50.0


def test_the_longest_wait_of_a_tick_is_told_beside_the_usual_one() -> None:
    found = summary.of_hand_over(HandedOver(100.0, wall_ms=[0.01] * 98 + [0.5, 2.0]))
    assert (found["tick_wait_ms_p50"], found["tick_wait_ms_p99"], found["tick_wait_ms_max"]) == (0.01, 0.5, 2.0)
    assert (found["ticks_over_1_ms"], found["intent_wait_ms_max"]) == (1, None)
