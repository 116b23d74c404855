"""A View comes back from a recording as it was."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.history.dataclass_json import encoder
from controller.history.view_codec import ChunkWriter, Frame, frames
from domain.errors import BadReading
from domain.histogram import Histogram
from domain.slo import Latency
from domain.view import View
from tests.snapshots import BEGAN
from tests.views import runtime, view

NUMBERS = st.one_of(st.floats(allow_nan=False), st.integers(-(2**60), 2**60), st.sampled_from([0.0, -0.0, math.inf]))
COUNTS = st.one_of(st.integers(0, 10**9).map(float), NUMBERS)


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Anything that the type allows, whole numbers where floats are declared included."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is float:
        return NUMBERS
    if hint is Histogram:
        return st.builds(
            Histogram, st.lists(NUMBERS, max_size=3).map(tuple), st.lists(COUNTS, max_size=4).map(tuple), NUMBERS
        )
    if origin in (Union, UnionType):
        return st.one_of([values(arg) for arg in args])
    if origin is tuple:
        return st.lists(values(args[0]), max_size=2).map(tuple)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(values(args[0]), values(args[1]), max_size=2)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        return st.builds(hint, **{one.name: values(hints[one.name]) for one in fields(hint)})
    return st.from_type(hint)


HINTS = get_type_hints(View)
PARTS = {name: hint for name, hint in HINTS.items() if hint != (float | None)}
VIEWS = st.builds(
    View,
    **{name: values(hint) for name, hint in PARTS.items()},
    running=values(float | None),
    waiting=values(float | None),
    gpu_energy_j=values(float | None),
)


def written(*views: View) -> list[View]:
    writer = ChunkWriter()
    for tick, one in enumerate(views):
        writer.add(Frame(BEGAN + timedelta(seconds=tick), one))
    return [frame.view for frame in frames(writer.take().body)]


@settings(max_examples=60, deadline=None)
@given(st.lists(VIEWS, min_size=1, max_size=4))
def test_any_views_come_back_as_they_were(views: list[View]) -> None:
    back = written(*views)
    assert back == views
    assert [type(v) for one in back for v in one.__getstate__()] == [  # type: ignore[attr-defined]
        type(v)
        for one in views
        for v in one.__getstate__()  # type: ignore[attr-defined]
    ]


@given(st.lists(st.floats(), min_size=1, max_size=5))
def test_every_float_comes_back_to_the_last_bit_and_every_number_with_its_type(numbers: list[float]) -> None:
    assert [repr(one.running) for one in written(*(View(0.0, running=n) for n in numbers))] == list(map(repr, numbers))
    assert [repr(v.running) for v in written(View(0.0, running=1), View(0.0, running=1.0))] == ["1", "1.0"]


def test_a_value_that_becomes_unknown_is_unknown_in_the_recording() -> None:
    views = [view(), replace(view(), kv_cache_usage_ratio=None, runtime=None), view()]
    assert written(*views) == views


def test_two_histograms_may_have_bounds_of_their_own_and_take_turns() -> None:
    one, other = (Histogram((bound, math.inf), (1.0, 2.0), 0.5) for bound in (0.1, 0.2))
    views = [
        View(0.0, latencies={Latency.ITL: a}, completed={Latency.ITL: b})
        for a, b in ((one, one), (one, other), (one, one), (other, one), (one, one), (one, one))
    ]
    assert written(*views) == views


def test_what_stays_as_it_was_is_not_written_again() -> None:
    writer = ChunkWriter()
    for tick in range(30):
        writer.add(Frame(BEGAN + timedelta(seconds=tick), replace(view(), now_s=float(tick)), {"mode": "auto"}))
    assert len(writer.take().body) < 30 * 40
    assert writer.ticks == 0


def test_time_and_context_come_with_each_frame() -> None:
    writer = ChunkWriter()
    contexts: list[dict[str, Any]] = [{"mode": "auto"}, {"mode": "auto"}, {"mode": "observe", "n": [1, None]}]
    moments = [BEGAN + timedelta(microseconds=333_333 * tick) for tick in range(3)]
    for at, context in zip(moments, contexts, strict=True):
        writer.add(Frame(at, view(), context))
    chunk = writer.take()
    assert (chunk.from_at, chunk.to_at, chunk.ticks) == (moments[0], moments[2], 3)
    assert [(frame.at, frame.context) for frame in frames(chunk.body)] == list(zip(moments, contexts, strict=True))


def test_a_recording_that_was_damaged_is_named() -> None:
    with pytest.raises(BadReading, match="cannot read a recording"):
        list(frames(b"no such thing"))


def test_a_type_without_a_rule_is_refused_before_anything_is_written() -> None:
    with pytest.raises(TypeError, match="no rule"):
        encoder(set[int])


def test_every_field_of_a_view_has_a_rule() -> None:
    numbers: dict[str, Any] = {name: 0.5 for name, hint in HINTS.items() if hint == (float | None)}
    full = View(1.0, runtime=runtime(), **numbers)
    assert written(full) == [full]
