"""The laws of the capacity model: what it learns, what it leaves out, when it is believed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from domain.capacity import Capacity
from domain.readings.engine import StepSums
from domain.view import View
from policies.capacity import CapacityState, model, update
from policies.least_squares import Sums, fit
from tests.views import runtime

TRUE = (0.018, 90e-6, 60e-9)
Step = tuple[float, float, float]
"""tokens, context, seconds"""


def sums(steps: Iterable[Step], running: float = 32.0, between_s: float = 0.0) -> StepSums:
    """What the plugin would count over these steps."""
    rows = list(steps)
    t, c, s = ([row[i] for row in rows] for i in range(3))

    def products(one: list[float], other: list[float]) -> float:
        return sum(x * y for x, y in zip(one, other, strict=True))

    return StepSums(
        n=len(rows),
        tokens=sum(t),
        context=sum(c),
        seconds=sum(s),
        budget_tokens=2048.0 * len(rows),
        tokens_tokens=products(t, t),
        tokens_context=products(t, c),
        context_context=products(c, c),
        tokens_seconds=products(t, s),
        context_seconds=products(c, s),
        seconds_seconds=products(s, s),
        between_seconds=between_s,
        empty=0,
        samples=len(rows),
        running=running * len(rows),
        waiting=0.0,
    )


def step(rng: random.Random, truth: tuple[float, float, float] = TRUE, noise: float = 0.0) -> Step:
    """A step of a busy engine: some 32 decodes, now and then with a piece of a prompt."""
    tokens = rng.randint(8, 64) + (rng.randint(0, 1500) if rng.random() < 0.3 else 0)
    context = rng.uniform(2_000, 120_000)
    a, b, c = truth
    return tokens, context, (a + b * tokens + c * context) * max(0.05, rng.gauss(1.0, noise))


def seen(now_s: float, steps: StepSums | None, boot_id: str = "boot-a") -> View:
    return View(now_s=now_s, runtime=runtime(boot_id=boot_id), steps=steps)


def learn(windows: Iterable[StepSums | None], state: CapacityState | None = None) -> CapacityState:
    state = state or CapacityState()
    for number, window in enumerate(windows):
        state = update(state, seen(float(number), window))
    return state


def windows(
    count: int, seed: int = 1, noise: float = 0.0, truth: Callable[[int], tuple[float, float, float]] = lambda _: TRUE
) -> list[StepSums]:
    rng = random.Random(seed)
    return [sums(step(rng, truth(number), noise) for _ in range(30)) for number in range(count)]


def fitted(state: CapacityState) -> Capacity:
    capacity = model(state)
    assert capacity is not None
    return capacity


def near(capacity: Capacity, truth: tuple[float, float, float], within: float) -> bool:
    """Predictions over the range of a busy engine: coefficients may trade with each other, predictions may not."""
    a, b, c = truth
    points = [(8, 2_000), (32, 30_000), (64, 120_000), (1500, 60_000)]
    expected = [a + b * t + c * k for t, k in points]
    return all(abs(capacity.step_s(t, k) - e) <= within * e for (t, k), e in zip(points, expected, strict=True))


def test_exact_steps_give_exactly_their_law() -> None:
    capacity = fitted(learn(windows(30)))
    assert (capacity.a_s, capacity.b_s, capacity.c_s) == pytest.approx(TRUE, rel=1e-6)
    assert capacity.relative_error < 1e-4
    assert capacity.trusted
    assert "18 ms + 90 us a token + 60 ns a context token" in capacity.why
    assert capacity.request_context == pytest.approx(60_000 / 32, rel=0.2)


@settings(max_examples=25)
@given(a=st.floats(0.001, 0.1), b=st.floats(1e-6, 1e-3), c=st.floats(1e-9, 1e-6), seed=st.integers(0, 1000))
def test_any_exact_law_is_recovered(a: float, b: float, c: float, seed: int) -> None:
    capacity = fitted(learn(windows(25, seed, truth=lambda _: (a, b, c))))
    assert near(capacity, (a, b, c), within=1e-4)
    assert capacity.trusted


@pytest.mark.parametrize("seed", range(5))
def test_with_ten_percent_of_noise_predictions_are_off_by_less_than_three(seed: int) -> None:
    capacity = fitted(learn(windows(60, seed, noise=0.1)))
    assert near(capacity, TRUE, within=0.03)
    assert 0.05 < capacity.relative_error < 0.15
    assert capacity.trusted


def spoiled(clean: list[StepSums], seed: int, every: float = 0.05, factor: float = 20.0) -> list[StepSums]:
    """Some windows, `factor` times as slow: a stop of the machine, another tenant."""
    rng = random.Random(seed)
    return [
        StepSums(
            **{
                name: getattr(one, name) * {1: factor, 2: factor**2}.get(name.split("_").count("seconds"), 1.0)
                for name in one.__slots__
            }
        )
        if rng.random() < every
        else one
        for one in clean
    ]


@pytest.mark.parametrize("seed", range(10))
def test_one_window_in_twenty_that_is_twenty_times_slower_changes_nothing(seed: int) -> None:
    capacity = fitted(learn(spoiled(windows(80, seed, noise=0.1), seed)))
    assert near(capacity, TRUE, within=0.04)
    assert capacity.relative_error < 0.15
    assert capacity.trusted


def test_three_outliers_among_the_first_eight_windows_do_not_spoil_the_start() -> None:
    clean = windows(30, noise=0.05)
    bad = spoiled(clean[:3], 0, every=1.0)
    assert near(fitted(learn(bad + clean[3:])), TRUE, within=0.03)


def test_tokens_and_context_that_rise_together_are_not_trusted() -> None:
    rng = random.Random(3)
    loads = [[rng.randint(1, 64) for _ in range(30)] for _ in range(60)]
    together = [sums((n, 1000.0 * n, 0.018 + 1.5e-4 * n) for n in load) for load in loads]
    capacity = fitted(learn(together))
    assert not capacity.trusted
    assert "rise together" in capacity.why


@pytest.mark.parametrize(
    ("steady", "says"), [((32.0, None), "the tokens of a step hardly vary"), ((None, 3e4), "the context of a step")]
)
def test_steps_that_do_not_vary_are_not_trusted(steady: tuple[float | None, float | None], says: str) -> None:
    rng = random.Random(4)
    rows = [
        [(steady[0] or rng.randint(1, 64), steady[1] or rng.uniform(1e3, 1e5), 0.02) for _ in range(30)]
        for _ in range(40)
    ]
    capacity = fitted(learn(map(sums, rows)))
    assert not capacity.trusted
    assert says in capacity.why


def test_steps_that_follow_no_law_are_not_trusted() -> None:
    capacity = fitted(learn(windows(60, noise=0.8)))
    assert not capacity.trusted
    assert "misses the step time by" in capacity.why


def test_too_few_windows_are_not_trusted_and_said() -> None:
    capacity = fitted(learn(windows(9)))
    assert not capacity.trusted
    assert "9 windows of steps, 10 are needed" in capacity.why


def test_before_the_first_fit_there_is_no_model() -> None:
    assert model(learn(windows(7))) is None
    assert model(CapacityState()) is None


def test_a_slow_drift_is_followed() -> None:
    """Steps become half as slow again over ten minutes, then stay so."""

    def truth(number: int) -> tuple[float, float, float]:
        by = 1.0 + 0.5 * min(1.0, number / 600)
        return TRUE[0] * by, TRUE[1] * by, TRUE[2] * by

    capacity = fitted(learn(windows(800, noise=0.05, truth=truth)))
    assert near(capacity, truth(800), within=0.05)
    assert capacity.trusted


def test_a_lasting_jump_is_learned_anew() -> None:
    """The GPU's clock halves: after five windows in a row that do not fit the law is learned from those."""
    before, after = TRUE, (0.036, 180e-6, 120e-9)
    state = learn(windows(60, noise=0.05))
    state = learn(windows(4, 2, noise=0.05, truth=lambda _: after), state)
    assert near(fitted(state), before, within=0.03)
    state = learn(windows(30, 3, noise=0.05, truth=lambda _: after), state)
    assert near(fitted(state), after, within=0.03)
    assert fitted(state).trusted


def test_a_monotonous_load_does_not_wash_out_what_was_learned() -> None:
    state = learn(windows(60, noise=0.05))
    same = [sums([(32.0, 30_000.0, 0.018 + 90e-6 * 32 + 60e-9 * 30_000)] * 30)] * 2000
    capacity = fitted(learn(same, state))
    assert capacity.trusted
    assert near(capacity, TRUE, within=0.05)


def test_another_boot_of_the_engine_starts_afresh() -> None:
    state = learn(windows(40))
    assert model(update(state, seen(99.0, windows(1)[0], boot_id="boot-b"))) is None


def test_an_engine_that_does_not_answer_is_not_another_engine() -> None:
    state = learn(windows(40))
    assert update(state, View(now_s=99.0)) == state


def test_views_without_steps_change_nothing() -> None:
    state = learn(windows(40))
    assert learn([None, sums([])], state) == state


def test_few_steps_wait_until_they_make_a_window() -> None:
    rng = random.Random(5)
    few = [sums(step(rng) for _ in range(4)) for _ in range(90)]
    capacity = fitted(learn(few))
    assert capacity.windows == 30
    assert (capacity.a_s, capacity.b_s, capacity.c_s) == pytest.approx(TRUE, rel=1e-6)


def test_the_pause_between_two_steps_is_a_part_of_what_a_request_waits() -> None:
    rng = random.Random(6)
    paused = [sums((step(rng) for _ in range(30)), between_s=30 * 0.002) for _ in range(30)]
    assert fitted(learn(paused)).a_s == pytest.approx(0.020, rel=1e-6)


def test_an_engine_whose_steps_take_no_time_has_no_cost() -> None:
    capacity = fitted(learn(windows(30, truth=lambda _: (0.0, 0.0, 0.0))))
    assert (capacity.a_s, capacity.b_s, capacity.c_s) == (0.0, 0.0, 0.0)
    assert capacity.most_tokens(0.05, 0.0) is None


POSITIVE = st.floats(0.0, 1e5)


@given(st.lists(st.tuples(POSITIVE, st.floats(0.0, 1e6), st.floats(0.0, 10.0)), min_size=1, max_size=40))
def test_no_cost_ever_comes_out_negative(rows: list[Step]) -> None:
    one = sums(rows)
    theta = fit(Sums(one.n, one.tokens, one.context, one.seconds, one.tokens_tokens, one.tokens_context,
                     one.context_context, one.tokens_seconds, one.context_seconds, one.seconds_seconds))  # fmt: skip
    assert min(theta) >= 0.0


@given(st.lists(st.lists(st.tuples(POSITIVE, st.floats(0.0, 1e6), st.floats(0.0, 10.0)), max_size=20), max_size=40))
def test_whatever_the_steps_the_state_survives_a_journey_through_json(parts: list[list[Step]]) -> None:
    state = learn(map(sums, parts))
    adapter = TypeAdapter(CapacityState)
    assert adapter.validate_json(adapter.dump_json(state)) == state
    assert learn(map(sums, parts)) == state
