"""Arithmetic over signals: what may stand in it, what it is worth, and that what is unknown is never 0."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.alert_thresholds.expression import MOST_CHARACTERS, parse
from policies.alert_thresholds.measure import check

KNOWN = {"waiting": 30.0, "running": 10.0, "demand": 0.0, "held": -2.0}


def value(text: str, **changes: float | None) -> float | None:
    return parse(text).value((KNOWN | changes).get)


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        ("waiting", 30.0),
        ("waiting / max(running, 1)", 3.0),
        ("(waiting + demand) * 2 - running / 4", 57.5),
        ("-held", 2.0),
        ("+abs(held - 1)", 3.0),
        ("min(waiting, running, 3.5)", 3.5),
        (" waiting\n", 30.0),
    ],
)
def test_it_is_worth_what_arithmetic_says(text: str, worth: float) -> None:
    assert value(text) == worth


@pytest.mark.parametrize("text", ["waiting / running", "max(running, 1)", "0 * running", "abs(running)", "-running"])
def test_it_is_unknown_as_soon_as_one_signal_is(text: str) -> None:
    assert value(text, running=None) is None


@pytest.mark.parametrize("text", ["waiting / demand", "demand / demand", "waiting * 1e308 * 1e10", "waiting / 1e-320"])
def test_what_has_no_finite_value_is_unknown(text: str) -> None:
    assert value(text) is None


def test_it_names_its_signals_once_each_and_not_its_functions() -> None:
    assert parse("max(waiting, running) / (waiting + 1)").names == ("waiting", "running")
    assert parse("waiting").plain
    assert not parse("waiting + 0").plain


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "cannot use signal ''"),
        ("3 + 4", "it names no signal"),
        ("waiting **2", "'waiting ** 2' cannot stand in it"),
        ("waiting // 2", "'waiting // 2' cannot stand in it"),
        ("waiting if running else 1", "cannot stand in it"),
        ("waiting > 3", "'waiting > 3' cannot stand in it"),
        ("waiting + True", "'True' cannot stand in it"),
        ("waiting + 'a'", "cannot stand in it"),
        ("waiting + 2j", "'2j' cannot stand in it"),
        ("__import__('os').getpid()", "cannot stand in it"),
        ("waiting.real", "'waiting.real' cannot stand in it"),
        ("[waiting][0]", "cannot stand in it"),
        ("round(waiting)", "'round(waiting)' cannot stand in it"),
        ("max(waiting)", "max takes 2 or more, not 1 values"),
        ("abs(waiting, running)", "abs takes 1, not 2 values"),
        ("max(*waiting, 1)", "cannot stand in it"),
        ("max(waiting, 1, default=2)", "cannot stand in it"),
        ("waiting +", "it may be made of signals, numbers"),
        ("waiting * 1e999", "a number in it is too large"),
        (f"waiting * {'9' * 400}", "a number in it is too large"),
        ("waiting; running", "cannot use signal"),
        ("(" * 240 + "waiting" + ")" * 240, "cannot use signal"),
        ("-" * 400 + "waiting", "it is nested too deep"),
        ("waiting" + "+1" * 200, "it is nested too deep"),
        ("waiting + " * 60 + "1", f"it is longer than {MOST_CHARACTERS} characters"),
        ("waiting\0", "cannot use signal"),
    ],
)
def test_what_cannot_stand_in_it_is_refused_in_a_sentence(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"^cannot use signal") as caught:
        parse(text)
    assert told in str(caught.value)


def test_a_signal_that_does_not_exist_is_named_with_its_nearest_wherever_it_stands() -> None:
    with pytest.raises(ValueError, match="there is no signal 'runing'; the nearest is 'running'"):
        check("waiting / max(runing, 1)")


parts = st.recursive(
    st.sampled_from(list(KNOWN)) | st.floats(-1e6, 1e6).map(repr),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda one: f"({' '.join(one)})"),
        st.tuples(inner, inner).map(lambda one: f"max({', '.join(one)})"),
        st.tuples(inner, inner).map(lambda one: f"min({', '.join(one)})"),
        inner.map(lambda one: f"abs({one})"),
        inner.map(lambda one: f"-{one}"),
    ),
    max_leaves=12,
)


@given(parts.filter(lambda text: len(text) < MOST_CHARACTERS and any(name in text for name in KNOWN)))
def test_any_arithmetic_is_worth_what_python_says(text: str) -> None:
    try:
        expected = float(eval(text, {"__builtins__": {"min": min, "max": max, "abs": abs}}, dict(KNOWN)))
    except ZeroDivisionError:
        expected = math.nan
    assert value(text) == (expected if math.isfinite(expected) else None)


@given(st.text(max_size=40) | st.text("waitng()+-*/ 1.,", max_size=40))
def test_any_text_is_an_expression_or_refused_in_a_sentence(text: str) -> None:
    try:
        parse(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"^cannot use signal"):
            parse(text)
    else:
        value(text)
