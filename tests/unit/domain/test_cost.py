"""The formulas of the ledger's figures, on entries made by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.cost import Tariff, figures
from domain.ledger import FIGURES, EnergySource, LedgerEntry, add_up, known

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
TARIFF = Tariff("CNY", per_kwh=0.8, per_gpu_hour=10.0, per_network_gb=0.5)
HOUR = LedgerEntry(
    at=BEGAN,
    resolution_s=3600,
    setting={"max_num_seqs": 8.0},
    energy_source=EnergySource.COUNTER,
    seconds=3600,
    gpu_s=4 * 3600,
    memory_byte_s=70e9 * 3600,
    energy_j=2 * 3.6e6,
    idle_energy_j=0.5 * 3.6e6,
    requests=1000,
    prompt_tokens=300_000,
    generation_tokens=100_000,
    response_bytes=4e9,
    cache_queries=300_000,
    cache_hits=180_000,
)


def test_an_hour_comes_to_what_its_quantities_times_the_tariff_are() -> None:
    made = figures([HOUR], 3600, TARIFF)
    assert (made.memory_gb.value, made.gpu_hours.value, made.network_gb.value) == (70, 4, 4)
    assert (made.energy_kwh.value, made.idle_kwh.value) == (2, 0.5)
    assert (made.energy_cost.value, made.gpu_cost.value, made.network_cost.value) == (1.6, 40, 2)
    assert made.total_cost.value == pytest.approx(43.6)
    assert made.cost_per_1k_requests.value == pytest.approx(43.6)
    assert made.cost_per_100k_requests.value == pytest.approx(4360)
    assert made.cost_per_million_generated.value == pytest.approx(436)
    assert made.cost_per_million_tokens.value == pytest.approx(109)
    assert made.joules_per_token.value == 72
    assert made.requests_per_joule.value == pytest.approx(1000 / 7.2e6)
    assert made.reuse_ratio.value == 0.6
    assert (made.coverage_ratio.value, made.energy_coverage_ratio.value, made.energy_source) == (1, 1, "counter")


def test_qps_over_watts_is_requests_over_joules() -> None:
    """42 requests/s at 20 W."""
    made = figures([replace(HOUR, requests=42.0 * 3600, energy_j=20.0 * 3600)], 3600, TARIFF)
    assert made.requests_per_joule.value == pytest.approx(2.1)


def test_a_line_without_a_price_is_left_out_of_every_cost() -> None:
    made = figures([HOUR], 3600, Tariff("EUR", per_kwh=0.8))
    assert made.total_cost.value == made.energy_cost.value == 1.6
    assert made.gpu_cost.why == "there is no tariff.per_gpu_hour"
    assert made.cost_per_1k_requests.value == pytest.approx(1.6)


def test_without_any_price_nothing_costs_anything_that_is_known() -> None:
    made = figures([HOUR], 3600, Tariff("EUR"))
    assert (made.total_cost.value, made.total_cost.why) == (None, "there is no tariff")
    assert made.cost_per_1k_requests.value is None


def test_a_total_is_unknown_when_a_line_that_has_a_price_is() -> None:
    made = figures([replace(HOUR, response_bytes=None)], 3600, TARIFF)
    assert made.energy_cost.value == 1.6
    why = "vLLM's API server did not count what it sent"
    for figure in (made.network_cost, made.total_cost, made.cost_per_100k_requests):
        assert (figure.value, figure.why) == (None, why)


def test_a_price_of_nothing_is_a_price() -> None:
    assert figures([HOUR], 3600, replace(TARIFF, per_network_gb=0.0)).network_cost.value == 0


def test_where_the_energy_is_known_for_half_of_the_time_half_of_the_tokens_bear_it() -> None:
    blind = replace(HOUR, energy_source=EnergySource.NONE, energy_j=None, idle_energy_j=None)
    made = figures([HOUR, blind], 7200, Tariff("CNY", per_kwh=0.8))
    assert made.joules_per_token.value == 72
    assert made.cost_per_1k_requests.value == pytest.approx(1.6)
    assert made.requests.value == 2000
    assert (made.coverage_ratio.value, made.energy_coverage_ratio.value) == (1, 0.5)


def test_energy_without_a_token_has_no_joules_per_token() -> None:
    """Field case E3: two idle hours at 70 W."""
    idle = replace(HOUR, seconds=7200, idle_s=7200, energy_j=504_000, idle_energy_j=504_000)
    idle = replace(idle, requests=0.0, prompt_tokens=0.0, generation_tokens=0.0, cache_queries=0.0, cache_hits=0.0)
    made = figures([idle], 7200, TARIFF)
    assert made.energy_kwh.value == made.idle_kwh.value == pytest.approx(0.14)
    assert (made.joules_per_token.value, made.joules_per_token.why) == (None, "no token was generated")
    assert (made.cost_per_1k_requests.value, made.cost_per_1k_requests.why) == (None, "no request ended")
    assert made.reuse_ratio.value is None


def test_nothing_measured_is_nothing_known() -> None:
    made = figures([], 3600, TARIFF)
    assert (made.coverage_ratio.value, made.energy_source) == (0, None)
    assert (made.energy_kwh.value, made.total_cost.value, made.memory_gb.value) == (None, None, None)


def test_memory_of_several_nodes_is_the_sum_of_their_means_and_coverage_counts_each() -> None:
    made = figures([HOUR, replace(HOUR, node="b", seconds=1800, memory_byte_s=20e9 * 1800)], 3600, TARIFF)
    assert made.memory_gb.value == pytest.approx(90)
    assert made.coverage_ratio.value == pytest.approx(0.75)


def test_both_sources_of_energy_are_named() -> None:
    made = figures([HOUR, replace(HOUR, energy_source=EnergySource.POWER)], 7200, TARIFF)
    assert made.energy_source == "counter and power"


def _without(unknown: set[str], **changes: Any) -> LedgerEntry:
    lacking: dict[str, Any] = dict.fromkeys(unknown)
    return replace(HOUR, **changes, **lacking)


minutes = st.builds(
    lambda index, cap, source, drop, seconds: _without(
        drop | ({"energy_j", "idle_energy_j"} if source is EnergySource.NONE else set()),
        at=BEGAN + timedelta(minutes=index),
        resolution_s=60,
        setting={"max_num_seqs": cap},
        energy_source=source,
        seconds=seconds,
        note="began anew" if index % 3 else None,
    ),
    st.integers(0, 59),
    st.sampled_from([8.0, 16.0, None]),
    st.sampled_from(EnergySource),
    st.sets(st.sampled_from(FIGURES)),
    st.integers(1, 60),
)


@given(st.lists(minutes, max_size=20))
def test_figures_of_what_was_added_up_are_those_of_the_entries(entries: list[LedgerEntry]) -> None:
    summed = add_up(entries, 3600)
    before, after = figures(entries, 3600, TARIFF), figures(summed, 3600, TARIFF)
    for name in before.__slots__:
        one, other = getattr(before, name), getattr(after, name)
        if hasattr(one, "value"):
            assert other.why == one.why
            assert other.value == (None if one.value is None else pytest.approx(one.value))
        else:
            assert other == (pytest.approx(one) if isinstance(one, float) else one)


@given(st.lists(minutes, min_size=1, max_size=20))
def test_what_is_added_up_knows_each_figure_for_all_of_its_time_or_not_at_all(entries: list[LedgerEntry]) -> None:
    for hour in add_up(entries, 3600):
        parts = [e for e in entries if (e.setting, e.energy_source, known(e)) == _kind(hour)]
        assert hour.seconds == sum(part.seconds for part in parts)
        assert hour.at == min(part.at for part in parts)


def _kind(entry: LedgerEntry) -> tuple[object, ...]:
    return entry.setting, entry.energy_source, known(entry)
