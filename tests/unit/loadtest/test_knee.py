"""The straight line of P99, and where a server leaves it."""

from __future__ import annotations

import pytest

from loadtest.knee import Point, knee, line

SEEDS = [Point(10, 0.38, True), Point(30, 0.62, True), Point(50, 1.1, True)]
"""The seeds' own table: QPS and P99."""


def test_the_seeds_own_table_rises_by_18_ms_for_each_qps() -> None:
    found = line(SEEDS)
    assert found is not None
    assert found.slope_s_per_qps == pytest.approx(0.018)
    assert found.at(100) == pytest.approx(1.96)
    assert found.r2 == pytest.approx(0.964, abs=0.001)


def test_the_seeds_own_100_qps_still_lie_on_their_line() -> None:
    found = knee([*SEEDS, Point(100, 2.1, False)])
    assert (found.held_qps, found.left_qps) == (100, None)


def test_the_knee_is_the_last_rate_before_p99_leaves_the_line() -> None:
    steep = [Point(70, 1.5, False), Point(90, 4.0, False), Point(110, 9.0, False)]
    found = knee([*SEEDS, *steep])
    assert (found.held_qps, found.left_qps) == (70, 90)
    assert "foretells 1.78 s" in found.why


def test_a_knee_among_the_fixed_stages_is_found_too() -> None:
    found = knee([Point(10, 0.2, True), Point(30, 0.2, True), Point(50, 2.4, True)])
    assert (found.held_qps, found.left_qps) == (30, 50)


def test_a_limit_that_is_met_is_past_the_knee_however_straight_the_line() -> None:
    found = knee([*SEEDS, Point(70, 1.4, False), Point(90, 1.8, False, met=True)])
    assert (found.held_qps, found.left_qps) == (70, 90)


def test_a_first_rate_that_is_too_much_leaves_no_rate_that_was_held() -> None:
    found = knee([Point(10, None, True, met=True)])
    assert (found.held_qps, found.left_qps) == (None, 10)


def test_a_line_that_falls_by_noise_foretells_no_less_than_was_measured() -> None:
    falling = [Point(10, 0.3, True), Point(30, 0.25, True), Point(50, 0.2, True)]
    assert knee([*falling, Point(70, 0.5, False)]).left_qps is None
    assert knee([*falling, Point(70, 0.7, False)]).left_qps == 70


def test_one_rate_and_rates_without_an_answer_have_no_line() -> None:
    assert line([Point(10, 0.3, True)]) is None
    assert line([Point(10, 0.3, True), Point(30, None, True)]) is None
    two = line([Point(10, 0.3, True), Point(30, 0.5, True)])
    assert two is not None
    assert two.r2 is None
