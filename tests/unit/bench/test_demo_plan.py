"""The demonstration's phases and the objective that it chooses."""

import math

import pytest

from bench.demo import plan
from bench.demo.daemon import to_toml
from bench.demo.plan import Objective, Phase
from domain.histogram import Histogram

BOUNDS = (0.002, 0.003, 0.004, 0.005, 0.006, 0.007, math.inf)


def spread(*shares: float) -> Histogram:
    """Shares of samples per bucket, made cumulative."""
    return Histogram(BOUNDS, tuple(sum(shares[: i + 1]) * 1000 for i in range(len(shares))), 1.0)


def test_the_phases_fill_the_duration() -> None:
    steps = plan.steps(60, 8, loaded=True)
    assert [step.phase for step in steps] == list(Phase)
    assert sum(step.length_s or 0 for step in steps) == pytest.approx(60)


def test_without_an_end_the_last_phase_has_none() -> None:
    steps = plan.steps(0, 8, loaded=True)
    assert steps[-1].length_s is None
    assert all(step.length_s for step in steps[:-1])


def test_an_engine_that_serves_somebody_gets_neither_a_static_batch_nor_an_objective() -> None:
    assert [step.phase for step in plan.steps(60, 8, loaded=False)] == [Phase.BEFORE, Phase.GOVERNED]


def test_a_measurement_begins_after_the_warm_up_and_the_last_change() -> None:
    assert plan.measured_from(100, 130, None) == 103
    assert plan.measured_from(100, 130, 110) == 111
    assert plan.measured_from(100, 130, 129) == 118  # a part is always left


def test_the_objective_lies_between_the_batches_at_the_strictest_percentile_that_separates_them() -> None:
    small = spread(0.94, 0.02, 0.02, 0.02, 0, 0, 0)
    large = spread(0, 0, 0.1, 0.1, 0.1, 0.7, 0)
    assert plan.objective(small, large) == Objective(90.0, 0.004)


def test_a_noisy_small_batch_gets_a_looser_percentile() -> None:
    small = spread(0.65, 0.06, 0.1, 0.1, 0.05, 0.04, 0)
    large = spread(0, 0.2, 0.2, 0.2, 0.2, 0.2, 0)
    found = plan.objective(small, large)
    assert found is not None
    assert found.percentile == 80.0


def test_batches_that_do_not_differ_have_no_objective() -> None:
    assert plan.objective(spread(1, 0, 0, 0, 0, 0, 0), spread(1, 0, 0, 0, 0, 0, 0)) is None
    assert plan.objective(spread(0, 0, 0, 0, 0, 0, 0), spread(1, 0, 0, 0, 0, 0, 0)) is None


def test_settings_are_written_as_toml() -> None:
    import tomllib

    values = {
        "mode": "auto",
        "engine": {"url": "http://x", "lease_s": 4.0},
        "slo": {"inter_token_latency": {"bound_s": 0.1}},
    }
    assert tomllib.loads(to_toml(values)) == values
