"""The rank test, which ticks compare, what counts as better or worse."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.histogram import Histogram
from domain.outcome import Outcome, Verdict
from domain.slo import Latency, Slo
from domain.view import View
from policies.evidence import Load, Tick, load_of, matching, tick_of
from policies.judgement import JudgementSettings, compare
from policies.rank_test import p_value, shift
from tests.views import samples, view

SETTINGS = JudgementSettings()
ITL = Slo(Latency.ITL, percentile=95, bound_s=0.05)
TTFT = Slo(Latency.TTFT, percentile=95, bound_s=0.05)
FIGURES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12)


def ticks(
    count: int = 30,
    *,
    over: float = 0.0,
    ttft_over: float = 0.0,
    per_s: float = 20.0,
    inside: float = 40.0,
    tokens: float = 400.0,
    e2e_s: float = 1.0,
    start_s: float = 0.0,
    seed: int = 1,
) -> list[Tick]:
    """A second each, with the noise of so many requests. `over`: the share of inter-token latencies over the bound."""
    chance = random.Random(seed)

    def about(mean: float) -> float:
        return max(0.0, round(chance.gauss(mean, math.sqrt(max(mean, 0.0)) / 2)))

    found = []
    for second in range(count):
        arrived, made = about(per_s), about(tokens)
        completed = {
            Latency.ITL: samples(made, min(made, about(made * over))),
            Latency.TTFT: samples(arrived, min(arrived, about(arrived * ttft_over))),
            Latency.E2E: Histogram((1.0, math.inf), (arrived, arrived), arrived * chance.gauss(e2e_s, e2e_s / 20)),
        }
        found.append(Tick(start_s + second, 1.0, arrived, inside, arrived, completed))
    return found


def verdict(before: Sequence[Tick], after: Sequence[Tick], *slos: Slo, **settings: Any) -> Outcome:
    return compare(before, after, slos, JudgementSettings(**settings))[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0), (5.5, 6.5, 8.0, 9.0, 10.0, 11.0, 12.0)),
        ((1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0), (2.0, 3.0, 3.0, 5.0, 5.0, 6.0, 7.0)),
        ((5.0, 1.0, 4.0, 1.0, 2.0, 7.0, 3.0), (1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 0.5)),
        ((0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.2), (0.0, 0.0, 0.1, 0.1, 0.2, 0.2, 0.3)),
    ],
)
def test_the_probability_is_about_that_of_all_ways_to_deal_the_figures(
    before: tuple[float, ...], after: tuple[float, ...]
) -> None:
    """The exact distribution, counted out: the approximation is off by a few percent at seven a side."""
    both = (*before, *after)

    def u(late: Sequence[float], early: Sequence[float]) -> float:
        return sum((a > b) + 0.5 * (a == b) for a in late for b in early)

    middle = len(before) * len(after) / 2
    found = abs(u(after, before) - middle)
    dealt = [set(chosen) for chosen in combinations(range(len(both)), len(after))]
    as_far = sum(
        abs(u([both[i] for i in late], [both[i] for i in range(len(both)) if i not in late]) - middle) >= found - 1e-9
        for late in dealt
    )
    assert p_value(before, after) == pytest.approx(as_far / len(dealt), abs=0.05)


@given(FIGURES, FIGURES)
def test_a_probability_lies_between_0_and_1_and_does_not_care_which_side_is_which(
    before: list[float], after: list[float]
) -> None:
    p = p_value(before, after)
    assert 0.0 <= p <= 1.0
    assert p == pytest.approx(p_value(after, before))


@given(FIGURES)
def test_the_same_figures_twice_are_no_difference(figures: list[float]) -> None:
    assert p_value(figures, figures) == 1.0
    assert shift(figures, figures) == 0.0


def test_nothing_to_compare_is_no_difference_and_equal_figures_are_none() -> None:
    assert p_value([], [1.0]) == p_value([1.0] * 9, [1.0] * 9) == 1.0
    assert shift([], [1.0]) is None


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=12), st.integers(-50, 50))
def test_a_constant_added_to_all_is_the_shift(figures: list[int], by: int) -> None:
    assert shift(figures, [one + by for one in figures]) == by


def test_one_wild_figure_moves_the_shift_little() -> None:
    figures = [float(i) for i in range(20)]
    assert shift(figures, [*(one + 3 for one in figures[:-1]), 1e9]) == pytest.approx(3, abs=0.5)


def test_noise_alone_is_significant_no_more_often_than_it_says() -> None:
    chance = random.Random(7)
    hits = sum(
        p_value([chance.random() for _ in range(20)], [chance.random() for _ in range(20)]) < 0.05 for _ in range(400)
    )
    assert hits < 0.05 * 400 * 1.6


def test_an_objective_that_broke_is_worse_and_undone_with_the_numbers() -> None:
    said = verdict(ticks(over=0.02), ticks(over=0.15, seed=2), ITL)
    assert (said.verdict, said.undo) == (Verdict.WORSE, True)
    assert "inter_token_latency over 0.05 s went from 1.99% to 14.65%" in said.sentence
    assert "5.00% allowed" in said.sentence
    assert said.numbers["inter_token_latency_over_ratio_before"] == pytest.approx(0.02, abs=0.005)
    assert said.numbers["inter_token_latency_over_ratio_after"] == pytest.approx(0.15, abs=0.01)
    assert said.numbers["inter_token_latency_over_ratio_p"] < 0.001  # type: ignore[operator]
    assert said.numbers["e2e_request_latency_p99_after_s"] is not None


def test_an_objective_that_is_kept_is_not_broken_by_moving_inside_its_bound() -> None:
    said = verdict(ticks(over=0.001), ticks(over=0.03, seed=2), ITL)
    assert (said.verdict, said.undo) == (Verdict.NEUTRAL, False)


def test_an_objective_that_is_missed_less_is_better_even_at_less_throughput() -> None:
    said = verdict(ticks(over=0.2), ticks(over=0.02, tokens=300.0, seed=2), ITL)
    assert (said.verdict, said.undo) == (Verdict.BETTER, False)


def test_what_helps_one_objective_and_harms_another_is_a_trade_and_stays() -> None:
    said = verdict(ticks(over=0.2), ticks(over=0.02, ttft_over=0.5, seed=2), ITL, TTFT)
    assert (said.verdict, said.undo) == (Verdict.NEUTRAL, False)
    assert "a trade" in said.sentence


def test_throughput_decides_where_no_objective_moved_and_is_never_undone() -> None:
    """With clients that wait for their answer: as many inside, more served."""
    more = verdict(ticks(), ticks(per_s=40.0, tokens=800.0, seed=2), ITL)
    less = verdict(ticks(per_s=40.0, tokens=800.0), ticks(seed=2), ITL)
    assert (more.verdict, less.verdict, less.undo) == (Verdict.BETTER, Verdict.WORSE, False)
    assert "tokens_per_s went from 4" in more.sentence


def test_latency_decides_last() -> None:
    assert verdict(ticks(), ticks(e2e_s=0.7, seed=2)).verdict is Verdict.BETTER
    assert verdict(ticks(), ticks(e2e_s=1.4, seed=2)).verdict is Verdict.WORSE
    assert verdict(ticks(), ticks(e2e_s=1.4, seed=2), ITL).verdict is Verdict.NEUTRAL


def test_noise_is_neutral() -> None:
    verdicts = [verdict(ticks(over=0.02, seed=seed), ticks(over=0.02, seed=seed + 100), ITL) for seed in range(60)]
    assert all(said.verdict is Verdict.NEUTRAL for said in verdicts)


def test_more_load_is_no_fault_of_the_change() -> None:
    """More clients and more arrivals: nothing compares."""
    said, enough = compare(ticks(over=0.02), ticks(over=0.3, per_s=60.0, inside=160.0), [ITL], SETTINGS)
    assert (said.verdict, said.undo, enough) == (Verdict.UNCLEAR, False, False)
    assert "0 of 30 after had the same load" in said.sentence


def test_a_step_of_waiting_clients_is_no_fault_of_the_change_although_as_many_are_served() -> None:
    """48 more clients arrive at once; a saturated engine serves them at the same rate."""
    after = ticks(over=0.3, inside=88.0, seed=2)
    after[0] = Tick(0.0, 1.0, 20.0, 88.0, 68.0, after[0].completed)
    assert verdict(ticks(over=0.02), after, ITL).verdict is Verdict.UNCLEAR


def test_a_backlog_that_a_change_made_is_its_fault() -> None:
    """As many arrive as before, and more and more stay inside."""
    after = [
        Tick(tick.now_s, 1.0, tick.finished - 4, 40.0 + 4 * second, tick.arrived, tick.completed)
        for second, tick in enumerate(ticks(ttft_over=0.4, seed=2))
    ]
    said = verdict(ticks(ttft_over=0.01), after, TTFT)
    assert (said.verdict, said.undo) == (Verdict.WORSE, True)


def test_a_backlog_that_was_growing_before_the_change_is_not() -> None:
    before = [
        Tick(tick.now_s, 1.0, tick.finished, 40.0 + 2 * second, tick.arrived, tick.completed)
        for second, tick in enumerate(ticks(ttft_over=0.01))
    ]
    said = verdict(before, ticks(ttft_over=0.4, inside=70.0, seed=2), TTFT)
    assert (said.verdict, said.undo) == (Verdict.UNCLEAR, False)
    assert "already growing" in said.sentence


def test_ticks_of_another_load_are_left_out_of_the_comparison() -> None:
    burst = ticks(10, over=0.9, per_s=100.0, inside=300.0, start_s=20.0, seed=3)
    said = verdict(ticks(over=0.02), [*ticks(20, over=0.02, seed=2), *burst], ITL)
    assert said.verdict is Verdict.NEUTRAL
    assert said.numbers["after_matched_ticks"] == 20


def test_few_ticks_or_few_samples_are_unclear_with_their_number() -> None:
    said, enough = compare(ticks(over=0.02), ticks(6, over=0.5), [ITL], SETTINGS)
    assert (said.verdict, enough) == (Verdict.UNCLEAR, False)
    assert said.numbers["after_matched_ticks"] == 6
    assert compare([], ticks(), [ITL], SETTINGS)[0].verdict is Verdict.UNCLEAR
    thin = verdict(ticks(over=0.0, tokens=1.0, per_s=1.0), ticks(over=1.0, tokens=1.0, per_s=1.0, seed=2), ITL)
    assert not thin.undo


def test_the_load_is_arrivals_and_those_inside() -> None:
    found = load_of(ticks(per_s=20.0, inside=40.0))
    assert found is not None
    assert found.per_s == pytest.approx(20, rel=0.1)
    assert found.inside == 40
    assert load_of([]) is None


def test_few_arrivals_match_as_far_as_they_can_tell() -> None:
    """One request every two seconds: a Poisson count of five in ten seconds says little."""
    chance = random.Random(3)
    rare = [
        Tick(float(s), 1.0, 0.0, chance.choice((0.0, 1.0, 3.0)), float(chance.random() < 0.5), {}) for s in range(60)
    ]
    assert len(matching(rare, Load(0.5, 1.0), 0.2)) > 40


def test_a_tick_counts_what_completed_and_what_arrived() -> None:
    def seen(finished: float, running: float) -> View:
        return view(completed={Latency.E2E: samples(finished, 0)}, completed_s=1.0, running=running, waiting=5.0)

    first = tick_of(seen(10, 20), None)
    assert first is not None
    assert first.arrived is None
    second = tick_of(seen(10, 26), first)
    assert second is not None
    assert (second.arrived, second.inside, second.finished) == (16, 31, 10)
    assert tick_of(view(), second) is None


def test_the_shift_is_the_median_of_all_differences() -> None:
    before, after = [1.0, 5.0, 9.0], [2.0, 4.0]
    assert shift(before, after) == median([b - a for a in before for b in after])
