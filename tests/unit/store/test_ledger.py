"""The ledger on a real SQLite file: what goes in comes out, once, at whatever resolution."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import event

from domain.cost import Tariff, figures
from domain.ledger import EnergySource, LedgerEntry
from domain.stretch import HOUR_S
from store.database import database_url
from store.history import History
from store.ledger import LONG, setting_key

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
LATER = BEGAN + timedelta(days=1)
ENTRY = LedgerEntry(
    at=BEGAN,
    resolution_s=60,
    setting={"max_num_seqs": 8.0, "max_num_queued_reqs": None},
    energy_source=EnergySource.COUNTER,
    seconds=58.5,
    gap_s=1.5,
    idle_s=3.0,
    gpu_s=117.0,
    memory_byte_s=4e12,
    energy_j=35_100.0,
    idle_energy_j=500.0,
    requests=117.0,
    prompt_tokens=3510.0,
    generation_tokens=2340.0,
    response_bytes=46_800.0,
    cache_queries=3510.0,
    cache_hits=2106.0,
    note="energy counter began anew: GPU-a",
    node="a:8000",
)
OTHER = {"max_num_seqs": 16.0, "max_num_queued_reqs": None}


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[History]:
    history = History(database_url(str(tmp_path / "history.db")), "a:8000")
    await history.open()
    yield history
    await history.close()


@pytest.fixture
async def neighbour(history: History) -> AsyncIterator[History]:
    """Another daemon on the same history."""
    other = History(history.url, "b:8000")
    yield other
    await other.close()


def minutes(*entries: LedgerEntry) -> list[LedgerEntry]:
    """One a minute."""
    return [replace(one, at=BEGAN + timedelta(minutes=index), note=None) for index, one in enumerate(entries)]


async def all_of(history: History, node: str | None = None) -> list[LedgerEntry]:
    return await history.ledger.entries(BEGAN, LATER, node=node)


async def test_an_entry_comes_back_as_it_went_in(history: History) -> None:
    unknown = LedgerEntry(BEGAN + timedelta(minutes=1), 60, {}, node="a:8000")
    await history.ledger.add(None, [ENTRY, unknown])
    assert await all_of(history) == [ENTRY, unknown]


async def test_an_entry_that_is_written_again_is_replaced(history: History) -> None:
    """A write whose answer was lost is repeated."""
    await history.ledger.add(None, [ENTRY])
    await history.ledger.add(None, [replace(ENTRY, energy_j=1.0), replace(ENTRY, setting=OTHER)])
    assert [one.energy_j for one in await all_of(history)] == [1.0, 35_100.0]


async def test_a_setting_is_the_same_text_in_whatever_order_and_type(history: History) -> None:
    assert setting_key({"b": 8, "a": None}) == setting_key({"a": None, "b": 8.0}) == '{"a":null,"b":8.0}'


async def test_a_period_holds_what_begins_in_it(history: History) -> None:
    await history.ledger.add(None, minutes(*[ENTRY] * 5))
    found = await history.ledger.entries(BEGAN + timedelta(minutes=1), BEGAN + timedelta(minutes=3))
    assert [one.at for one in found] == [BEGAN + timedelta(minutes=1), BEGAN + timedelta(minutes=2)]


async def test_entries_are_found_by_some_of_their_knobs(history: History) -> None:
    await history.ledger.add(None, minutes(ENTRY, replace(ENTRY, setting=OTHER), replace(ENTRY, setting={})))
    found = await history.ledger.entries(BEGAN, LATER, setting={"max_num_seqs": 16.0})
    assert [one.setting for one in found] == [OTHER]
    assert len(await history.ledger.entries(BEGAN, LATER, setting={"max_num_queued_reqs": None})) == 2


async def test_two_nodes_keep_apart_and_are_seen_together(history: History, neighbour: History) -> None:
    await history.ledger.add(None, [ENTRY])
    await neighbour.ledger.add(None, [ENTRY])
    assert [one.node for one in await all_of(history)] == ["a:8000", "b:8000"]
    assert [one.node for one in await all_of(history, node="b:8000")] == ["b:8000"]
    assert [one.node for one in await history.ledger.sums(BEGAN, LATER)] == ["a:8000", "b:8000"]


async def test_time_by_setting_is_told_longest_first(history: History) -> None:
    other = replace(ENTRY, setting=OTHER, seconds=40.0)
    await history.ledger.add(None, minutes(ENTRY, other, other))
    assert await history.ledger.time_by_setting(BEGAN, LATER) == [(OTHER, 80.0), (ENTRY.setting, 58.5)]


async def test_notes_are_told_oldest_first_with_the_gap_that_they_are_about(history: History) -> None:
    entries = [replace(ENTRY, at=BEGAN + timedelta(minutes=i), note=f"cause {i}", gap_s=i) for i in range(30)]
    await history.ledger.add(None, entries)
    notes = await history.ledger.notes(BEGAN, LATER)
    assert [(note.text, note.gap_s) for note in notes] == [(f"cause {i}", i) for i in range(10, 30)]


async def test_the_end_of_the_ledger_is_that_of_its_newest_entry_that_is_not_in_the_future(
    history: History, neighbour: History
) -> None:
    """Field case D4."""
    assert await history.ledger.end(LATER) is None
    await history.ledger.add(None, [ENTRY, replace(ENTRY, at=BEGAN + timedelta(days=400))])
    await neighbour.ledger.add(None, [replace(ENTRY, at=BEGAN + timedelta(hours=3))])
    assert await history.ledger.end(LATER) == BEGAN + timedelta(seconds=58.5)


def changing() -> list[LedgerEntry]:
    """Three hours in which the setting, the source and what is known change."""
    kinds = [
        ENTRY,
        replace(ENTRY, setting=OTHER),
        replace(ENTRY, energy_source=EnergySource.POWER),
        replace(ENTRY, energy_source=EnergySource.NONE, energy_j=None, idle_energy_j=None),
        replace(ENTRY, requests=None, prompt_tokens=None, generation_tokens=None),
    ]
    return minutes(*(kinds[index % 7 % 5] for index in range(180)))


async def rolled(history: History, before: datetime) -> list[int]:
    pieces = []
    while piece := await history.ledger.roll_up(before):
        pieces.append(piece)
    return pieces


async def test_hours_are_made_of_minutes_an_hour_at_a_time_and_every_figure_stays(history: History) -> None:
    await history.ledger.add(None, changing())
    before = figures(await all_of(history), 86_400, TARIFF)
    assert await rolled(history, BEGAN + timedelta(hours=2, minutes=30)) == [60, 60]
    entries = await all_of(history)
    assert sum(one.resolution_s == 60 for one in entries) == 60
    assert sum(one.resolution_s == 3600 for one in entries) == 10
    after = figures(entries, 86_400, TARIFF)
    for name in before.__slots__:
        one, other = getattr(before, name), getattr(after, name)
        assert getattr(other, "value", other) == pytest.approx(getattr(one, "value", one)), name


async def test_days_are_made_of_hours(history: History) -> None:
    day = BEGAN + timedelta(days=1)
    await history.ledger.add(None, [replace(one, at=one.at + timedelta(hours=22)) for one in changing()])
    before = _told(await history.ledger.entries(BEGAN, day + timedelta(days=1)))
    await rolled(history, day + timedelta(hours=1))
    assert await history.ledger.roll_up(day, HOUR_S) == 10
    assert await history.ledger.roll_up(day + timedelta(hours=23), HOUR_S) == 0
    entries = await history.ledger.entries(BEGAN, day + timedelta(days=1))
    assert [one.resolution_s for one in entries] == [86_400] * 5 + [3600] * 5
    assert _told(entries) == before


async def test_the_sums_of_the_database_are_those_of_the_entries(history: History) -> None:
    await history.ledger.add(None, changing())
    await rolled(history, BEGAN + timedelta(hours=1))
    summed = await history.ledger.sums(BEGAN, LATER)
    whatever = await history.ledger.sums(BEGAN, LATER, by_setting=False)
    assert (len(summed), len(whatever)) == (5, 4)
    assert _told(summed) == _told(whatever) == _told(await all_of(history))


async def test_minutes_of_another_node_are_let_be(history: History, neighbour: History) -> None:
    await history.ledger.add(None, changing())
    await neighbour.ledger.add(None, changing())
    assert sum(await rolled(history, LATER)) == 180
    assert len(await all_of(neighbour, node="b:8000")) == 180


async def test_minutes_that_come_when_their_hour_is_made_already_add_to_it(history: History) -> None:
    """They waited while the disk was full."""
    entries = changing()
    await history.ledger.add(None, entries[:30])
    await rolled(history, LATER)
    await history.ledger.add(None, entries[30:60])
    await rolled(history, LATER)
    assert sum(one.seconds for one in await all_of(history)) == pytest.approx(60 * 58.5)


TARIFF = Tariff("CNY", 0.8, 10.0, 0.5)


def _told(entries: Sequence[LedgerEntry]) -> dict[str, object]:
    made = figures(entries, 86_400, TARIFF)
    values = {name: getattr(getattr(made, name), "value", getattr(made, name)) for name in made.__slots__}
    return {name: pytest.approx(value) if isinstance(value, float) else value for name, value in values.items()}


@pytest.fixture
def asked(history: History) -> list[tuple[str, object]]:
    """Every question for sums from now on, with its values."""
    found: list[tuple[str, object]] = []
    engine = history.database.engine.sync_engine

    @event.listens_for(engine, "before_cursor_execute")
    def note(_c: object, _k: object, statement: str, values: object, *_: object) -> None:
        if "sum(" in statement:
            found.append((statement, values))

    return found


async def plan(history: History, statement: str, values: object) -> list[str]:
    async with history.database.engine.connect() as connection:
        steps = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)  # type: ignore[arg-type]
        return [step.detail for step in steps]


async def test_whatever_the_setting_a_long_span_is_added_up_without_sorting_its_rows(
    history: History, asked: list[tuple[str, object]]
) -> None:
    await history.ledger.sums(BEGAN, BEGAN + 2 * LONG, by_setting=False)
    (question,) = asked
    (step,) = await plan(history, *question)
    assert "COVERING INDEX ix_ledger_kind" in step


async def test_of_some_settings_the_rows_of_no_other_are_read(
    history: History, asked: list[tuple[str, object]]
) -> None:
    await history.ledger.add(None, [ENTRY, replace(ENTRY, setting=OTHER)])
    await history.ledger.longest(BEGAN, LATER, 1, knobs=["max_num_seqs"])
    _, question = asked
    assert "INDEX ix_ledger_setting (setting_key=? AND at>? AND at<?)" in (await plan(history, *question))[0]
