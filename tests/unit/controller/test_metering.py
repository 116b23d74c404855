"""The ledger's meter: where an entry begins and ends, and what is not counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.history.metering import AWAY, RESTARTED, SLEPT, STALLED, UNREADABLE, Metering
from domain.knobs import LENGTH_GROUPING, MAX_NUM_BATCHED_TOKENS, MAX_NUM_QUEUED_REQS, MAX_NUM_SEQS, NO_LIMIT
from domain.ledger import EnergySource, LedgerEntry
from domain.readings.gpu import GpuReading
from domain.readings.vllm import VllmReading
from domain.snapshot import Snapshot
from tests.snapshots import BEGAN, GIB, gpu, gpus, memory, snapshot
from tests.views import knob, runtime, with_knobs

CAP8 = {MAX_NUM_SEQS: 8, MAX_NUM_BATCHED_TOKENS: 2048}
CAP16 = {MAX_NUM_SEQS: 16, MAX_NUM_BATCHED_TOKENS: 2048}


def vllm(second: float, **changes: Any) -> VllmReading:
    """2 requests a second of 30 prompt tokens, 20 generated ones and 400 bytes; 60 % of the lookups hit."""
    reading = VllmReading(
        running=4,
        waiting=0,
        requests_finished=1000 + 2 * second,
        prompt_tokens=5000 + 60 * second,
        generation_tokens=7000 + 40 * second,
        prefix_cache_queries=5000 + 60 * second,
        prefix_cache_hits=3000 + 36 * second,
        response_bytes=100_000 + 800 * second,
    )
    return replace(reading, **changes)


def card(second: float, name: str = "a", **changes: Any) -> GpuReading:
    """300 W and 10 GiB."""
    values: dict[str, Any] = {"energy_j": 9e6 + 300 * second, "power_w": 300.0, "memory": memory(10 * GIB)} | changes
    return gpu(f"GPU-{name}", **values)


def tick(second: float, **changes: Any) -> Snapshot:
    values: dict[str, Any] = {
        "vllm": vllm(second),
        "gpus": gpus(card(second), card(second, "b")),
        "runtime": runtime(),
    } | changes
    return snapshot(second, **values)


def metered(snapshots: Iterable[Snapshot], tick_s: float = 1.0) -> list[LedgerEntry]:
    """All entries, the one under way included."""
    meter = Metering(tick_s)
    ended = [entry for one in snapshots for entry in meter.take(one)]
    return ended + meter.close()


def test_a_minute_becomes_one_entry_with_all_that_was_used_and_done() -> None:
    (entry,) = metered(tick(second) for second in range(61))
    assert (entry.at, entry.resolution_s, entry.setting, entry.note) == (BEGAN, 60, CAP8, None)
    assert (entry.seconds, entry.gap_s, entry.idle_s) == (60, 0, 0)
    assert (entry.energy_source, entry.energy_j, entry.idle_energy_j) == (EnergySource.COUNTER, 36_000, 0)
    assert (entry.gpu_s, entry.memory_byte_s) == (120, 60 * 20 * GIB)
    assert (entry.requests, entry.prompt_tokens, entry.generation_tokens) == (120, 3600, 2400)
    assert (entry.response_bytes, entry.cache_queries, entry.cache_hits) == (48_000, 3600, 2160)


def test_an_entry_ends_with_the_minute_of_the_clock() -> None:
    entries = metered(tick(second + 50) for second in range(31))
    assert [(entry.at - BEGAN).total_seconds() for entry in entries] == [50, 60]
    assert [entry.seconds for entry in entries] == [10, 20]


def test_an_entry_ends_when_a_knob_moves_and_the_tick_of_the_change_is_the_new_settings() -> None:
    """The change is sent right after the tick that decided it, so the next tick shows it."""
    entries = metered(tick(s, runtime=runtime(cap=8 if s <= 10 else 16)) for s in range(31))
    assert [(entry.setting, entry.seconds) for entry in entries] == [(CAP8, 10), (CAP16, 20)]
    assert entries[1].at == BEGAN + timedelta(seconds=10)
    assert sum(entry.energy_j or 0 for entry in entries) == 30 * 600


def test_a_setting_that_comes_back_within_a_minute_is_an_entry_of_its_own() -> None:
    entries = metered(tick(s, runtime=runtime(cap=8 if s <= 10 or s > 20 else 16)) for s in range(31))
    assert [entry.setting for entry in entries] == [CAP8, CAP16, CAP8]
    assert len({entry.at for entry in entries}) == 3


def test_a_setting_holds_the_governed_knobs_and_null_for_no_limit() -> None:
    engine = with_knobs(
        runtime(),
        knob(MAX_NUM_QUEUED_REQS, NO_LIMIT, NO_LIMIT, 0, NO_LIMIT),
        knob(LENGTH_GROUPING, 1, 0, 0, 1),
        knob("keep_alive_s", 5, 5, 1, 3600),
    )
    (entry,) = metered(tick(s, runtime=engine) for s in range(5))
    assert entry.setting == CAP8 | {MAX_NUM_QUEUED_REQS: None, LENGTH_GROUPING: 1}


def test_without_a_plugin_the_setting_is_not_known_and_the_rest_is() -> None:
    (entry,) = metered(tick(s, runtime=None) for s in range(5))
    assert (entry.setting, entry.energy_j, entry.requests) == ({}, 2400, 8)


@pytest.mark.parametrize("changes", [{"vllm": None}, {"gpus": None}, {"runtime": None}, {"vllm": None, "gpus": None}])
def test_a_source_that_leaves_out_a_tick_or_two_costs_nothing(changes: Mapping[str, None]) -> None:
    """Field case S3: one disconnect is not down; counters go on."""
    ticks = [tick(s, **(changes if s in (4, 5) else {})) for s in range(11)]
    assert metered(ticks) == metered(tick(s) for s in range(11))


def test_a_source_that_stays_away_is_unknown_from_its_last_reading_on() -> None:
    entries = metered(tick(s, **({"vllm": None} if 10 < s <= 30 else {})) for s in range(41))
    assert [(entry.seconds, entry.requests) for entry in entries] == [(10, 20), (21, None), (9, 18)]
    assert sum(entry.energy_j or 0 for entry in entries) == 40 * 600
    assert entries[1].idle_energy_j is None  # whether anything ran is not known
    assert all(entry.gap_s == 0 for entry in entries)


def test_time_in_which_nothing_could_be_read_is_a_gap_before_the_next_entry() -> None:
    none = {"vllm": None, "gpus": None}
    before, after = metered(tick(s, **(none if 10 < s <= 30 else {})) for s in range(41))
    assert (before.seconds, after.seconds, after.gap_s, after.note) == (10, 9, 21, UNREADABLE)


def test_ticks_that_did_not_come_are_a_gap_and_nothing_of_it_is_counted() -> None:
    """Field case S2: rates are not computed across the gap."""
    before, after = metered(tick(s) for s in (*range(11), *range(21, 31)))
    assert (before.seconds, after.seconds, after.gap_s, after.note) == (10, 9, 11, STALLED)
    assert (before.requests, after.requests, after.energy_j) == (20, 18, 5400)


def test_a_tick_that_waited_for_a_hung_source_is_no_gap() -> None:
    (entry,) = metered(replace(tick(s), took_s=5.0) for s in range(0, 31, 5))
    assert (entry.seconds, entry.energy_j) == (30, 18_000)


def test_a_suspended_machine_is_a_gap_of_the_time_it_slept() -> None:
    """Field case S2: the monotonic clock stood still for two hours, the wall clock did not."""
    ticks = [tick(s) for s in range(11)]
    ticks += [replace(tick(s), wall=BEGAN + timedelta(seconds=s + 7200)) for s in range(11, 21)]
    before, after = metered(ticks)
    assert (before.seconds, after.seconds, after.gap_s, after.note) == (10, 9, 7201, SLEPT)


def test_a_clock_that_is_set_back_ends_the_entry_and_no_time_is_lost() -> None:
    ticks = [tick(s) for s in range(11)]
    ticks += [replace(tick(s), wall=BEGAN + timedelta(seconds=s - 3600)) for s in range(11, 21)]
    entries = metered(ticks)
    assert [(entry.seconds, entry.gap_s) for entry in entries] == [(11, 0), (9, 0)]


def test_a_daemon_that_comes_back_counts_the_time_it_was_away_as_a_gap() -> None:
    meter = Metering(1.0)
    meter.resume(BEGAN - timedelta(seconds=90), "the history before is in history.db.corrupt")
    for second in range(5):
        meter.take(tick(second))
    (entry,) = meter.close()
    assert (entry.seconds, entry.gap_s) == (4, 90)
    assert entry.note == f"the history before is in history.db.corrupt; {AWAY}"


def test_a_ledger_that_ends_in_the_future_makes_no_gap() -> None:
    """Field case D4: the clock was wrong when the last entry was written."""
    meter = Metering(1.0)
    meter.resume(BEGAN + timedelta(days=400))
    for second in range(5):
        meter.take(tick(second))
    assert [(entry.gap_s, entry.note) for entry in meter.close()] == [(0, None)]


@pytest.mark.parametrize(
    "changes", [{"runtime": runtime(boot_id="boot-b")}, {"vllm": vllm(0, generation_tokens=10, requests_finished=1013)}]
)
def test_an_engine_that_restarted_is_a_gap_even_where_a_counter_came_back_higher(changes: Any) -> None:
    """Field case M7."""
    ticks = [tick(s) for s in range(6)] + [tick(6, **changes)]
    meter = Metering(1.0)
    ended = [entry for one in ticks for entry in meter.take(one)]
    meter.take(tick(7, **({"runtime": changes["runtime"]} if "runtime" in changes else {})))
    (after,) = meter.close()
    assert [(entry.seconds, entry.requests) for entry in ended] == [(5, 10)]
    assert (after.gap_s, after.note) == (1, RESTARTED)


def test_an_api_process_that_restarted_alone_is_a_gap() -> None:
    ticks = [tick(s, vllm=vllm(s, response_bytes=800 * (s - 5 if s > 5 else 100 + s))) for s in range(11)]
    before, after = metered(ticks)
    assert (before.response_bytes, after.response_bytes, after.gap_s) == (4000, 3200, 1)
    assert after.note == "vLLM's counter response_bytes began anew"


def test_memory_that_nvml_tells_by_its_older_call_is_the_same_memory() -> None:
    """Field case N8: v1 counts the driver's reserve as used."""
    fallback = [
        memory(8 * GIB, reserved_bytes=GIB) if s < 5 else memory(9 * GIB, reserved_bytes=None) for s in range(11)
    ]
    (entry,) = metered(tick(s, gpus=gpus(card(s, memory=fallback[s]))) for s in range(11))
    assert entry.memory_byte_s == 10 * 8 * GIB


def test_a_card_without_memory_of_its_own_leaves_memory_alone_unknown() -> None:
    """Field case N1."""
    (entry,) = metered(tick(s, gpus=gpus(card(s, memory=None))) for s in range(5))
    assert (entry.memory_byte_s, entry.gpu_s, entry.energy_j) == (None, 4, 1200)


def test_idle_is_the_time_in_which_nothing_ran_and_no_token_came() -> None:
    still = vllm(0, running=0)
    entries = metered(tick(s, vllm=still if s < 20 else replace(vllm(s - 20), running=4)) for s in range(31))
    (entry,) = entries
    assert (entry.idle_s, entry.idle_energy_j, entry.energy_j) == (19, 19 * 600, 30 * 600)


sources = st.fixed_dictionaries({"vllm": st.booleans(), "gpus": st.booleans(), "runtime": st.booleans()})


@given(st.lists(st.tuples(st.integers(1, 9), sources, st.sampled_from([8.0, 16.0])), min_size=2, max_size=40))
def test_all_time_is_either_measured_or_a_gap_and_no_gain_is_counted_twice(
    steps: list[tuple[int, dict[str, bool], float]],
) -> None:
    """Whatever sources come and go and however late a tick is: the sums never pass what the counters gained."""
    second, ticks = 0, []
    for wait_s, there, cap in steps:
        second += wait_s
        full = tick(second, runtime=runtime(cap=cap))
        lacking: dict[str, Any] = {name: None for name, have in there.items() if not have}
        ticks.append(replace(full, **lacking))
    span_s = ticks[-1].now_s - ticks[0].now_s
    entries = metered(ticks)
    measured = sum(entry.seconds for entry in entries)
    assert measured + sum(entry.gap_s for entry in entries) <= span_s
    assert sum(entry.energy_j or 0 for entry in entries) <= 600 * measured
    assert sum(entry.requests or 0 for entry in entries) <= 2 * measured
    for entry in entries:
        assert entry.requests in (None, 2 * entry.seconds)
        assert entry.energy_j in (None, 600 * entry.seconds)
