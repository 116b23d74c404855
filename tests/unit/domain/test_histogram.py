"""Bucket arithmetic: what the difference of two cumulative histograms does and does not say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.histogram import Histogram

BOUNDS = (0.1, 0.2, 0.4, math.inf)


def histogram(*counts: float, total: float = 0.0) -> Histogram:
    return Histogram(BOUNDS, counts, total)


def test_a_difference_holds_what_was_observed_in_between() -> None:
    delta = histogram(5, 8, 9, 10, total=3.0).since(histogram(1, 2, 3, 4, total=1.0))
    assert delta == histogram(4, 6, 6, 6, total=2.0)
    assert delta.samples == 6
    assert delta.mean == pytest.approx(1 / 3)


def test_a_bucket_that_went_down_makes_the_difference_unknown() -> None:
    assert histogram(0, 1, 1, 1).since(histogram(1, 1, 1, 1)) is None


def test_other_bounds_make_the_difference_unknown() -> None:
    assert histogram(1, 1, 1, 1).since(Histogram((1.0, math.inf), (1, 1), 1.0)) is None


def test_without_samples_nothing_is_known() -> None:
    empty = histogram(0, 0, 0, 0)
    assert (empty.quantile(0.5), empty.mean, empty.fraction_above(0.1)) == (None, None, None)


def test_the_share_above_a_bound_is_exact() -> None:
    h = histogram(50, 90, 99, 100)
    assert h.fraction_above(0.1) == 0.5
    assert h.fraction_above(0.2) == pytest.approx(0.1)
    assert h.fraction_above(0.4) == pytest.approx(0.01)


def test_the_share_above_a_value_between_bounds_is_interpolated() -> None:
    assert histogram(0, 100, 100, 100).fraction_above(0.15) == pytest.approx(0.5)


def test_beyond_the_last_finite_bound_the_share_counts_what_is_surely_above() -> None:
    assert histogram(0, 0, 90, 100).fraction_above(5.0) == pytest.approx(0.1)


def test_a_quantile_in_the_last_bucket_answers_its_lower_bound() -> None:
    assert histogram(0, 0, 90, 100).quantile(0.99) == 0.4


@given(st.lists(st.integers(0, 50), min_size=4, max_size=4), st.floats(0.01, 0.99))
def test_a_quantile_lies_in_the_bucket_of_its_rank(increments: list[int], q: float) -> None:
    counts = [sum(increments[: i + 1]) for i in range(4)]
    value = histogram(*counts).quantile(q)
    if counts[-1] == 0:
        assert value is None
        return
    rank = q * counts[-1]
    bucket = next(i for i, count in enumerate(counts) if count >= rank)
    lower = BOUNDS[bucket - 1] if bucket else 0.0
    upper = BOUNDS[bucket] if bucket < 3 else 0.4
    assert value is not None
    assert lower - 1e-9 <= value <= upper + 1e-9


def test_a_quantile_in_the_last_bucket_says_so() -> None:
    h = histogram(0, 0, 90, 100)
    assert (h.saturated(0.99), h.saturated(0.9), h.saturated(0.91)) == (True, False, True)
    assert (h.bucket(0.99), h.bucket(0.5)) == ((0.4, math.inf), (0.2, 0.4))
    assert (histogram(0, 0, 0, 0).saturated(0.5), histogram(0, 0, 0, 0).bucket(0.5)) == (False, None)


def test_two_engines_add_up_and_other_bounds_do_not() -> None:
    assert histogram(1, 2, 3, 4, total=1.0).add(histogram(5, 5, 5, 5, total=2.0)) == histogram(6, 7, 8, 9, total=3.0)
    assert histogram(1, 1, 1, 1).add(Histogram((1.0, math.inf), (1, 1), 1.0)) is None


def test_a_bucket_that_was_read_a_moment_early_does_not_make_counts_fall() -> None:
    assert histogram(5, 4, 6, 6).since(histogram(0, 0, 0, 0)) == histogram(5, 5, 6, 6)


def counted(values: list[float]) -> Histogram:
    return histogram(*(sum(1 for value in values if value <= bound) for bound in BOUNDS), total=sum(values))


LATENCIES = st.lists(st.floats(0.0, 2.0), min_size=1, max_size=60)


@given(LATENCIES, st.floats(0.01, 0.99))
def test_a_quantile_shares_its_bucket_with_the_true_one(values: list[float], q: float) -> None:
    h = counted(values)
    true = sorted(values)[math.ceil(q * len(values)) - 1]
    bucket, estimate = h.bucket(q), h.quantile(q)
    assert bucket is not None
    assert estimate is not None
    assert bucket[0] <= true <= bucket[1]
    assert bucket[0] <= estimate <= bucket[1]
    assert h.saturated(q) == (true > 0.4)


@given(LATENCIES, st.sampled_from(BOUNDS[:-1]))
def test_the_share_above_any_bound_is_exact(values: list[float], bound: float) -> None:
    assert counted(values).fraction_above(bound) == pytest.approx(sum(v > bound for v in values) / len(values))


@given(LATENCIES, st.floats(0.0, 3.0), st.floats(0.0, 3.0))
def test_the_share_above_falls_as_the_value_rises(values: list[float], one: float, other: float) -> None:
    lower, higher = (counted(values).fraction_above(value) for value in sorted((one, other)))
    assert lower is not None
    assert higher is not None
    assert 0 <= higher <= lower <= 1


@given(LATENCIES, LATENCIES)
def test_what_was_added_is_what_a_difference_gives_back(earlier: list[float], later: list[float]) -> None:
    both = counted(earlier).add(counted(later))
    assert both is not None
    delta = both.since(counted(earlier))
    assert delta is not None
    assert delta.counts == counted(later).counts
    assert delta.total == pytest.approx(sum(later))
