"""What is proposed where nobody set an objective, and from which minutes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.histogram import Histogram
from domain.slo import Latency, Slo
from domain.view import View
from policies.objectives import ProposalSettings, Proposed, Watch, propose, watch_on
from tests.views import runtime, view

SETTINGS = ProposalSettings(warm_up_s=10, settle_s=5, min_quiet_s=30, min_samples=100, busy_s=60)
BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5, math.inf)


def took(seconds: float, samples: float = 10.0) -> Histogram:
    """`samples` requests that all took as long."""
    counts = tuple(samples if bound >= seconds else 0.0 for bound in BOUNDS)
    return Histogram(BOUNDS, counts, seconds * samples)


QUICK = {Latency.TTFT: took(0.08), Latency.ITL: took(0.02, 500.0), Latency.E2E: took(0.9)}


def seen(now_s: float, **changes: Any) -> View:
    """A second in which ten requests finished, three of eight slots taken, nobody waiting."""
    values: dict[str, Any] = {"completed": QUICK, "completed_s": 1.0, "running": 3.0, "demand": 0.0, "asleep": False}
    return view(now_s, **(values | changes))


def after(seconds: int, watch: Watch = Watch(), start_s: float = 0.0, **changes: Any) -> Watch:  # noqa: B008
    for second in range(seconds):
        watch = watch_on(watch, seen(start_s + second, **changes), SETTINGS)
    return watch


def bounds(made: Proposed | None) -> dict[Latency, float]:
    assert made is not None
    return {slo.latency: slo.bound_s for slo in made.slos}


def test_an_objective_is_so_many_times_the_quiet_percentile_rounded_up_to_a_bucket_bound() -> None:
    made = propose(after(60), SETTINGS)
    # The 95th percentiles lie within their buckets at 0.09875, 0.02425 and 0.975 s.
    assert bounds(made) == {Latency.TTFT: 0.5, Latency.ITL: 0.05}
    assert made is not None
    assert all(slo.proposed and slo.percentile == 95 for slo in made.slos)


def test_a_latency_whose_objective_would_lie_past_the_last_bucket_gets_none() -> None:
    assert Latency.E2E not in bounds(propose(after(60), SETTINGS))
    slow = {**QUICK, Latency.E2E: took(0.4)}
    assert bounds(propose(after(60, completed=slow), SETTINGS))[Latency.E2E] == 2.5


def test_the_sentence_names_what_it_rests_on_and_the_evidence_holds_the_numbers() -> None:
    made = propose(after(60), SETTINGS)
    assert made is not None
    assert made.sentence.startswith("No objective is configured; proposed from 45 s of quiet load (450 requests): ")
    assert "inter_token_latency P95 within 0.05 s (2 times the quiet 0.0243 s)" in made.sentence
    assert made.evidence["inter_token_latency_samples"] == 45 * 500


@pytest.mark.parametrize(
    "busy",
    [
        {"demand": 1.0},
        {"demand": None, "waiting": 1.0},
        {"running": 5.0},
        {"preemptions_per_s": 0.1},
    ],
)
def test_a_tick_with_a_queue_a_full_engine_or_preemptions_is_not_quiet(busy: dict[str, Any]) -> None:
    assert after(60, **busy).quiet_s == 0


@pytest.mark.parametrize(
    "unknown",
    [
        {"demand": None, "waiting": None},
        {"running": None},
        {"preemptions_per_s": None},
        {"completed_s": None},
        {"runtime": None},
        {"asleep": True},
    ],
)
def test_what_is_not_known_is_neither_quiet_nor_busy(unknown: dict[str, Any]) -> None:
    watch = after(100, **unknown)
    assert (watch.quiet_s, watch.busy_s) == (0, 0)
    assert propose(watch, SETTINGS) is None


def test_held_requests_are_no_queue() -> None:
    assert after(60, waiting=4.0, held=4.0, demand=0.0).quiet_s > 0


def test_without_a_cap_the_queue_alone_tells_what_is_quiet() -> None:
    assert after(60, runtime=runtime(cap=None), running=900.0).quiet_s > 0


def test_the_cap_counts_once_for_each_engine_core() -> None:
    assert after(60, runtime=runtime(cores=2), running=8.0).quiet_s > 0


def test_the_warm_up_of_a_boot_does_not_count() -> None:
    assert after(15).quiet_s == 0  # ten seconds of warm-up, five to settle
    assert after(16).quiet_s == 1


def test_the_first_seconds_of_quiet_belong_to_the_load_before() -> None:
    busy = after(30, demand=5.0)
    assert after(5, busy, 30.0).quiet_s == 0
    assert after(6, busy, 30.0).quiet_s == 1


def test_quiet_minutes_need_not_be_in_one_piece() -> None:
    watch = after(30)
    watch = after(5, watch, 30.0, demand=3.0)
    watch = after(30, watch, 35.0)
    assert watch.quiet_s == 15 + 25


def test_idle_seconds_are_no_evidence() -> None:
    nothing = {latency: took(0.02, 0.0) for latency in QUICK}
    assert after(60, completed=nothing).quiet_s == 0


def test_nothing_is_proposed_from_too_little() -> None:
    assert propose(after(44), SETTINGS) is None  # 29 s
    few = {latency: took(0.02, 1.0) for latency in QUICK}
    assert propose(after(60, completed=few), SETTINGS) is None  # 45 requests


def test_another_boot_is_watched_from_the_start() -> None:
    watch = after(1, after(60), 60.0, runtime=runtime(boot_id="boot-b"))
    assert (watch.boot_id, watch.quiet_s) == ("boot-b", 0)


def test_an_engine_that_is_never_quiet_gets_an_inter_token_objective_alone_and_for_the_time_being() -> None:
    assert propose(after(60, demand=5.0), SETTINGS) is None
    made = propose(after(80, demand=5.0), SETTINGS)
    assert bounds(made) == {Latency.ITL: 0.05}
    assert made is not None
    assert made.provisional
    assert "70 s of load that was not quiet" in made.sentence


def test_a_quiet_proposal_is_final() -> None:
    made = propose(after(60, after(80, demand=5.0), 80.0), SETTINGS)
    assert made is not None
    assert not made.provisional
    assert Latency.TTFT in bounds(made)


def test_histograms_with_other_bounds_are_not_added_up() -> None:
    watch = after(60)
    other = {Latency.ITL: Histogram((0.03, math.inf), (5.0, 5.0), 0.1)}
    assert after(1, watch, 60.0, completed=other).quiet[Latency.ITL] == other[Latency.ITL]


@given(
    counts=st.lists(st.integers(0, 1000), min_size=len(BOUNDS), max_size=len(BOUNDS)),
    factor=st.floats(1, 100),
    percentile=st.floats(1, 99.9),
)
def test_a_proposed_bound_is_a_bucket_bound_and_met_by_the_load_it_came_from(
    counts: list[int], factor: float, percentile: float
) -> None:
    cumulative = tuple(float(sum(counts[: i + 1])) for i in range(len(counts)))
    histogram = Histogram(BOUNDS, cumulative, 1.0)
    settings = SETTINGS.model_copy(update={"inter_token_latency_factor": factor, "percentile": percentile})
    watch = replace(Watch(), busy={Latency.ITL: histogram}, busy_s=1000.0)
    made = propose(watch, settings)
    if made is None:
        return
    (slo,) = made.slos
    assert isinstance(slo, Slo)
    assert slo.bound_s in BOUNDS[:-1]
    over = histogram.fraction_above(slo.bound_s)
    assert over is not None
    assert over <= slo.allowed_ratio + 1e-9
