"""Rounding onto rungs."""

from hypothesis import given
from hypothesis import strategies as st

from policies.ladder import down, rungs, up


def test_rungs_are_multiples_of_the_step_between_the_ends() -> None:
    assert rungs(8, 64, 8) == (8, 16, 24, 32, 40, 48, 56, 64)
    assert rungs(5, 30, 8) == (5, 8, 16, 24, 30)


def test_an_envelope_without_room_has_one_rung() -> None:
    assert rungs(8, 4, 8) == (4,)
    assert rungs(8, 8, 8) == (8,)


def test_down_rounds_down_and_moves_at_least_one_rung() -> None:
    ladder = rungs(8, 64, 8)
    assert down(64, 54.4, ladder) == 48
    assert down(16, 13.6, ladder) == 8
    assert down(12, 11.9, ladder) == 8
    assert down(8, 5, ladder) == 8


def test_up_moves_at_least_one_rung_and_stops_at_the_top() -> None:
    ladder = rungs(8, 64, 8)
    assert up(8, 12, ladder) == 16
    assert up(60, 90, ladder) == 64
    assert up(64, 96, ladder) == 64


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 32), st.floats(0, 400), st.floats(0, 400))
def test_the_answer_is_always_a_rung(floor: int, ceiling: int, step: int, value: float, target: float) -> None:
    ladder = rungs(floor, ceiling, step)
    assert down(value, target, ladder) in ladder
    assert up(value, target, ladder) in ladder
