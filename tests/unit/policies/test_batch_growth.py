"""The laws of the growth factor: lowered when P99 rose after a raise, restored later, corrected in a swinging load."""

from __future__ import annotations

from typing import Any

from policies.batch_resize import BatchResize, BatchResizeSettings, BatchResizeState
from tests.views import runtime, view


def factor_after(steps: list[tuple[float, int, dict[str, Any]]], **settings: Any) -> float:
    """The growth factor in force after (time, cap, what was seen)."""
    policy = BatchResize(BatchResizeSettings(**settings))
    state: BatchResizeState = policy.initial_state()
    factor = None
    for now_s, cap, seen in steps:
        state, (proposal,) = policy.decide(state, view(now_s, runtime=runtime(cap=cap, running=cap), **seen))
        factor = proposal.evidence["growth_factor"]
    assert isinstance(factor, float)
    return factor


ROSE = {"latency_slope_ratio": 0.2}
CALM = {"latency_slope_ratio": 0.05}
RAISE = [(0.0, 8, CALM), (1.0, 16, CALM)]


def test_a_p99_that_rose_by_over_ten_percent_after_a_raise_lowers_the_factor_by_a_step() -> None:
    assert factor_after([*RAISE, (60.0, 16, ROSE)]) == 1.3
    assert factor_after([*RAISE, (60.0, 16, {"latency_slope_ratio": 0.1})]) == 1.5


def test_one_raise_lowers_it_once_and_never_under_the_range() -> None:
    long = [*RAISE, (60.0, 16, ROSE), (70.0, 16, ROSE)]
    assert factor_after(long, growth_factor=1.8) == 1.6
    again = [*long, (71.0, 24, ROSE), (80.0, 24, ROSE), (81.0, 32, ROSE), (82.0, 40, ROSE), (83.0, 48, ROSE)]
    assert factor_after(again, growth_factor=1.8) == 1.3


def test_a_rise_without_a_raise_or_long_after_it_is_not_its_doing() -> None:
    assert factor_after([(0.0, 16, CALM), (60.0, 16, ROSE)]) == 1.5
    assert factor_after([(0.0, 24, CALM), (1.0, 16, CALM), (60.0, 16, ROSE)]) == 1.5
    assert factor_after([*RAISE, (200.0, 16, ROSE)]) == 1.5


def test_an_unknown_slope_changes_nothing() -> None:
    assert factor_after([*RAISE, (60.0, 16, {})]) == 1.5


def test_it_comes_back_step_by_step_when_latency_stays_calm() -> None:
    low = [*RAISE, (60.0, 16, ROSE)]
    assert factor_after([*low, (200.0, 16, CALM)]) == 1.3
    assert factor_after([*low, (361.0, 16, CALM)]) == 1.5
    assert factor_after([*low, (361.0, 16, {})]) == 1.3


def test_a_factor_outside_its_range_becomes_one_and_a_half_when_the_load_swings() -> None:
    swing = [(0.0, 16, {"requests_per_s_swing_ratio": 0.4})]
    steady = [(0.0, 16, {"requests_per_s_swing_ratio": 0.3})]
    assert factor_after(swing, growth_factor=2.0) == 1.5
    assert factor_after(swing, growth_factor=1.2) == 1.5
    assert factor_after(swing, growth_factor=1.7) == 1.7
    assert factor_after(steady, growth_factor=2.0) == 2.0
    assert factor_after([(0.0, 16, {})], growth_factor=2.0) == 2.0


def test_the_factor_is_the_step_up_where_the_largest_step_allows_it() -> None:
    def wanted(**settings: Any) -> float | None:
        policy = BatchResize(BatchResizeSettings(max_growth=64, **settings))
        _, (proposal,) = policy.decide(policy.initial_state(), view(runtime=runtime(cap=40, running=40, maximum=128)))
        return proposal.wanted

    assert wanted() == 64  # 60
    assert wanted(growth_factor=1.3) == 56  # 52
