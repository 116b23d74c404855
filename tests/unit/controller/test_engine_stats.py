"""The engine's own statistics: each record once, unknown is None, what is malformed is named."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller.engine import stats_document as engine_stats
from controller.engine.client import EngineClient
from controller.engine.connections import Connections
from controller.sensors.engine import EngineStatsSensor
from controller.settings import EngineSettings
from domain.errors import BadReading, EngineUnreachable
from domain.readings.engine import CoreStats, RequestRecord, StepSums
from tests.fake_engine import RECORD_FIELDS, FakeEngine

STEPS: dict[str, Any] = {
    "n": 10, "tokens": 20, "context": 30, "seconds": 0.5, "budget_tokens": 40, "tokens_tokens": 1e3,
    "tokens_context": 2e3, "context_context": 3e3, "tokens_seconds": 1.5, "context_seconds": 2.5,
    "seconds_seconds": 0.1, "between_seconds": 0.01, "empty": 1, "samples": 2, "running": 6, "waiting": 4,
}  # fmt: skip
GROUPS: dict[str, Any] = {
    "steps": STEPS,
    "requests": {
        "admitted": 7, "finished": 5, "gave_up": 1, "preemptions": 2,
        "cache": {"hot_requests": 3, "cold_requests": 4, "prompt_tokens": 700, "hit_tokens": 300},
        "prompts": {"n": 7, "p10": 48, "p50": 210, "p90": 612},
    },
    "blocks": {"evictions": 11, "dropped": 0, "reallocations": 13},
    "kv": {"ratio": 0.25, "pool_bytes": 1 << 30},
    "queue": {"running": 3, "waiting": 1, "oldest_waiting_s": 0.5},
    "padding": {"steps": 5, "real_tokens": 90, "padded_tokens": 100},
    "allocator": {"age_s": 1, "workers": [
        {"reserved_bytes": 100, "allocated_bytes": 80, "inactive_split_bytes": 10},
        {"reserved_bytes": 100, "allocated_bytes": 80, "inactive_split_bytes": 20},
    ]},
    "window": {"held": 2, "windows": 3, "regroupings": 4},
    "tiers": {"kept": 60, "cold": 40, "target": 60, "limit": 80},
}  # fmt: skip


def row(number: int, **changed: Any) -> list[Any]:
    """The record number `number`, told by its `finished_at`."""
    plain = dict(zip(RECORD_FIELDS, [1000.0 + number, "length", 32, 8, 16, 0, 0.1, 0.2, 0.9, 0.1], strict=True))
    return list((plain | changed).values())


def answer(rows: list[list[Any]] | None = None, **groups: Any) -> dict[str, Any]:
    records = {"fields": list(RECORD_FIELDS), "first": 1, "next": len(rows or []), "more": False, "rows": rows or []}
    core = {"engine": 0, "boot_id": "boot-a", "degraded": [], **GROUPS, "records": records, **groups}
    return {"engines": [core]}


def core_of(document: dict[str, Any]) -> CoreStats:
    (core,) = engine_stats.cores(document)
    return core.stats


class Rig:
    """A sensor at an engine. Time is the test's."""

    def __init__(self, engine: FakeEngine, client: EngineClient) -> None:
        self.engine = engine
        self.now_s = 0.0
        self.sensor = EngineStatsSensor(client, lambda: self.now_s)

    def finish(self, count: int) -> None:
        """So many more requests end; the number of a record is its place, from 1 on."""
        done = self.engine.first_row - 1 + len(self.engine.rows)
        self.engine.rows += [row(done + number) for number in range(1, count + 1)]

    def forget(self, count: int) -> None:
        """The oldest records are overwritten."""
        del self.engine.rows[:count]
        self.engine.first_row += count

    async def numbers(self) -> list[int]:
        """Which records the next reading brings."""
        return [round(record.finished_at - 1000) for record in (await self.sensor.read()).records]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    engine = FakeEngine()
    await engine.server.start_server()
    settings = EngineSettings(url=engine.url)
    async with Connections(settings) as connections:
        yield Rig(engine, EngineClient.over(connections.admin, settings))
    await engine.server.close()


# --- each record once ---


async def test_each_record_is_read_once(rig: Rig) -> None:
    rig.finish(3)
    assert await rig.numbers() == [1, 2, 3]
    assert await rig.numbers() == []
    rig.finish(2)
    assert await rig.numbers() == [4, 5]


async def test_what_one_answer_cannot_hold_comes_with_the_next_reading(rig: Rig) -> None:
    rig.engine.rows_per_read = 4
    rig.finish(10)
    assert [await rig.numbers() for _ in range(4)] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10], []]


async def test_an_answer_that_was_lost_takes_no_record_with_it(rig: Rig) -> None:
    rig.finish(2)
    assert await rig.numbers() == [1, 2]
    rig.finish(2)
    rig.engine.status = 503
    with pytest.raises(EngineUnreachable):
        await rig.sensor.read()
    rig.engine.status = None
    assert await rig.numbers() == [3, 4]


async def test_a_restarted_engine_is_read_from_its_first_record(rig: Rig) -> None:
    rig.finish(5)
    assert await rig.numbers() == [1, 2, 3, 4, 5]
    rig.engine.restart()
    rig.finish(2)
    reading = await rig.sensor.read()
    assert [record.finished_at for record in reading.records] == [1001.0, 1002.0]
    assert (reading.cores[0].boot_id, reading.records_lost) == ("boot-b", 0)


async def test_records_overwritten_before_they_were_read_are_counted_and_those_before_the_first_reading_are_not(
    rig: Rig,
) -> None:
    rig.finish(10)
    rig.forget(4)
    first = await rig.sensor.read()
    assert (len(first.records), first.records_lost) == (6, 0)
    rig.finish(9)
    rig.forget(6 + 3)
    second = await rig.sensor.read()
    assert (len(second.records), second.records_lost) == (6, 3)
    assert (await rig.sensor.read()).records_lost == 0


async def test_a_row_that_cannot_be_understood_is_named_once_and_the_next_reading_goes_on(rig: Rig) -> None:
    rig.finish(1)
    rig.engine.rows.append(row(2, e2e_s="soon"))
    with pytest.raises(BadReading, match=r"records\.e2e_s is 'soon'"):
        await rig.sensor.read()
    rig.finish(1)
    assert await rig.numbers() == [3]


async def test_the_allocators_are_asked_at_once_and_then_every_thirty_seconds(rig: Rig) -> None:
    asked = []
    for now_s in (0, 1, 29, 30, 31, 75):
        rig.now_s = now_s
        await rig.sensor.read()
        asked.append(rig.engine.stats_queries[-1].get("allocator"))
    assert asked == ["1", None, None, "1", None, "1"]


# --- the document ---


def test_every_figure_of_the_document_has_its_place() -> None:
    assert core_of(answer()) == CoreStats(
        index=0, boot_id="boot-a", steps=StepSums(**STEPS), admitted=7, gave_up=1, preemptions=2, hot_requests=3,
        cold_requests=4, cache_prompt_tokens=700, cache_hit_tokens=300, prompt_tokens_p10=48, prompt_tokens_p90=612,
        evictions=11, reallocations=13, kv_fragmentation_ratio=0.25, kv_pool_bytes=1 << 30, oldest_waiting_s=0.5,
        real_tokens=90, padded_tokens=100, allocator_reserved_bytes=200, allocator_inactive_split_bytes=30,
        held=2, windows=3, regroupings=4, hot_blocks=60, cold_blocks=40,
    )  # fmt: skip


def test_a_record_is_the_row_by_its_names_whatever_their_order() -> None:
    document = answer([row(1, ttft_s=None, tpot_s=None)])
    records = document["engines"][0]["records"]
    records["fields"].reverse()
    records["rows"][0].reverse()
    (core,) = engine_stats.cores(document)
    assert engine_stats.records(core) == [RequestRecord(1001.0, "length", 32, 8, 16, 0, 0.1, None, 0.9, None)]


@pytest.mark.parametrize("group", sorted(GROUPS))
@pytest.mark.parametrize("absent", [True, False], ids=["absent", "null"])
def test_a_group_that_is_off_is_unknown_and_costs_no_other(group: str, absent: bool) -> None:
    document = answer()
    document["engines"][0][group] = None
    if absent:
        del document["engines"][0][group]
    known, whole = core_of(document), core_of(answer())
    differing = {name for name in CoreStats.__slots__ if getattr(known, name) != getattr(whole, name)}
    assert differing
    assert all(getattr(known, name) is None for name in differing)


def _figures() -> list[tuple[str, ...]]:
    figures: list[tuple[str, ...]] = []
    for group, values in GROUPS.items():
        for name, value in values.items():
            if isinstance(value, dict):
                figures += [(group, name, inner) for inner in value]
            elif not isinstance(value, list):
                figures.append((group, name))
    return figures


@pytest.mark.parametrize("path", _figures(), ids=".".join)
def test_a_figure_that_this_plugin_does_not_have_is_unknown_and_no_error(path: tuple[str, ...]) -> None:
    document = answer(**{name: _copied(values) for name, values in GROUPS.items()})
    holder = document["engines"][0]
    for name in path[:-1]:
        holder = holder[name]
    del holder[path[-1]]
    known, whole = core_of(document), core_of(answer())
    differing = {name for name in CoreStats.__slots__ if getattr(known, name) != getattr(whole, name)}
    assert len(differing) <= 1
    assert all(getattr(known, name) is None for name in differing)


def _copied(value: Any) -> Any:
    return {name: _copied(inner) for name, inner in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({"steps": STEPS | {"seconds": math.nan}}, r"engine 0\.steps\.seconds is nan"),
        ({"steps": STEPS | {"n": "ten"}}, r"engine 0\.steps\.n is 'ten'"),
        ({"kv": {"ratio": math.inf}}, r"engine 0\.kv\.ratio is inf"),
        ({"queue": {"oldest_waiting_s": True}}, r"engine 0\.queue\.oldest_waiting_s is True"),
        ({"requests": {"cache": {"hot_requests": []}}}, r"engine 0\.requests\.cache\.hot_requests is \[\]"),
        ({"blocks": [1, 2]}, r"engine 0\.blocks is \[1, 2\], not an object"),
        ({"allocator": {"workers": 3}}, r"engine 0\.allocator\.workers is 3, not a list"),
    ],
)
def test_a_malformed_figure_is_a_bad_reading_that_names_it(groups: dict[str, Any], said: str) -> None:
    with pytest.raises(BadReading, match=said):
        engine_stats.cores(answer(**groups))


@pytest.mark.parametrize("document", [{}, {"engines": None}, {"engines": [{}]}, {"engines": ["x"]}])
def test_an_answer_that_is_no_statistics_is_a_bad_reading(document: dict[str, Any]) -> None:
    with pytest.raises(BadReading, match="cannot understand the plugin's statistics"):
        engine_stats.cores(document)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ttft_s": "fast"}, r"records\.ttft_s is 'fast'"),
        ({"queue_s": None}, r"records\.queue_s is None"),
        ({"finished_at": math.inf}, r"records\.finished_at is inf"),
        ({"prompt_tokens": True}, r"records\.prompt_tokens is True"),
    ],
)
def test_a_malformed_value_among_a_thousand_rows_is_named(changed: dict[str, Any], said: str) -> None:
    rows = [row(number) for number in range(1000)]
    rows[700] = row(700, **changed)
    (core,) = engine_stats.cores(answer(rows))
    with pytest.raises(BadReading, match=said):
        engine_stats.records(core)


def test_rows_of_another_length_than_their_names_are_a_bad_reading() -> None:
    (core,) = engine_stats.cores(answer([row(1), row(2)[:-1]]))
    with pytest.raises(BadReading, match="not 10 values long"):
        engine_stats.records(core)


def test_a_plugin_whose_records_lack_a_column_gives_none_and_says_which() -> None:
    document = answer([row(1)])
    records = document["engines"][0]["records"]
    records["fields"].remove("tpot_s")
    records["rows"][0].pop()
    (core,) = engine_stats.cores(document)
    assert [record.tpot_s for record in engine_stats.records(core)] == [None]
    records["fields"][RECORD_FIELDS.index("queue_s")] = "queued_s"
    (core,) = engine_stats.cores(document)
    assert engine_stats.records(core) == []
    assert core.stats.degraded == ("records: this plugin's have no queue_s",)
    assert core.next == 1


def test_allocator_bytes_are_unknown_when_a_worker_does_not_say() -> None:
    workers = [{"reserved_bytes": 100, "allocated_bytes": 80, "inactive_split_bytes": 10}, None]
    core = core_of(answer(allocator={"age_s": 0.1, "workers": workers}))
    assert (core.allocator_reserved_bytes, core.allocator_inactive_split_bytes) == (None, None)
