"""The laws of stability: a rate that swings with a hot mix takes cache_ratio's step, once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from domain.decision import Proposal, Reason
from domain.knobs import HOT_CACHE_RATIO, MAX_NUM_SEQS
from domain.view import View
from policies.batch_resize import BatchResize, BatchResizeSettings
from policies.cache_ratio import CacheRatio, CacheRatioSettings
from policies.stability import Stability, StabilitySettings, StabilityState
from tests.spells import lasting
from tests.views import knob, runtime, view, with_knobs

POLICY = Stability(StabilitySettings())


def seen(now_s: float = 0.0, ratio: float = 0.3, swing: float | None = 0.5, **changes: Any) -> View:
    values: dict[str, Any] = {
        "runtime": with_knobs(runtime(), knob(HOT_CACHE_RATIO, ratio, 0.0, 0.0, 0.9)),
        "requests_per_s_swing_ratio": swing,
        "hot_requests_ratio": 0.5,
        "cache_hit_ratio": 0.7,
        "latency_slope_ratio": 0.0,
    }
    return view(now_s, **(values | changes))


def after(*views: View, policy: Stability = POLICY) -> Proposal:
    state = policy.initial_state()
    proposals: tuple[Proposal, ...] = ()
    for one in views:
        state, proposals = policy.decide(state, one)
    return proposals[-1]


def test_a_rate_that_swings_by_over_30_percent_with_a_hot_mix_raises_the_ratio_by_005() -> None:
    proposal = after(seen())
    assert (proposal.wanted, proposal.reason) == (0.35, Reason.HOT_SHARE_HIGH)
    assert "swings by 50% and 50% of the requests are hot" in proposal.sentence


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"swing": 0.3}, 0.3),
        ({"hot_requests_ratio": 0.4}, 0.3),
        ({"ratio": 0.0}, 0.0),
        ({"ratio": 0.4}, 0.4),
        ({"cache_hit_ratio": 0.0}, 0.3),
        ({"kv_cache_usage_ratio": 1.0, "preemptions_per_s": 1.0}, 0.3),
        ({"swing": None}, None),
        ({"hot_requests_ratio": None}, None),
        ({"runtime": runtime()}, None),
        ({"runtime": None}, None),
    ],
)
def test_else_it_holds_or_abstains(changes: dict[str, Any], wanted: float | None) -> None:
    proposal = after(seen(**changes))
    assert proposal.wanted == wanted
    assert (proposal.reason is Reason.ABSTAIN_UNKNOWN) is (wanted is None)


def test_its_step_and_that_of_cache_ratio_happen_once() -> None:
    cache = CacheRatio(CacheRatioSettings())
    cache_state, state, ratio, moves = cache.initial_state(), POLICY.initial_state(), 0.3, []
    for second in range(0, 600, 5):
        one = seen(float(second), ratio)
        cache_state, (theirs, *_) = cache.decide(cache_state, one)
        state, (mine,) = POLICY.decide(state, one)
        wanted = {p.wanted for p in (mine, theirs) if p.wanted != ratio}
        assert len(wanted) <= 1
        if wanted:
            moves.append(ratio := wanted.pop() or 0.0)
    assert moves == [0.35]


def test_the_range_and_the_pace_are_those_of_cache_ratio() -> None:
    wide = Stability(StabilitySettings(), CacheRatioSettings(ratio_max=0.5, step=0.1))
    assert after(seen(ratio=0.4), policy=wide).wanted == 0.5


@pytest.mark.parametrize(("set_factor", "grown"), [(2.2, 1.5), (1.2, 1.5), (1.7, 1.7)])
def test_the_growth_factor_outside_its_range_becomes_15_while_the_rate_swings(set_factor: float, grown: float) -> None:
    """The other branch of the same tree: it is batch_resize's own number, and batch_resize corrects it."""
    policy = BatchResize(BatchResizeSettings(growth_factor=set_factor))
    _, (proposal,) = policy.decide(policy.initial_state(), seen())
    assert proposal.knob == MAX_NUM_SEQS
    assert proposal.evidence["growth_factor"] == grown
    _, (calm,) = policy.decide(policy.initial_state(), seen(swing=0.2))
    assert calm.evidence["growth_factor"] == set_factor


RATIO = st.none() | st.floats(0.0, 1.0)


SWINGS = st.tuples(st.just(0.5), st.just(0.5), st.just(0.7))


@given(lasting(SWINGS | st.tuples(RATIO, RATIO, RATIO), 40))
def test_it_stays_in_the_range_and_never_moves_twice_in_ten_minutes(run: list[tuple[float | None, ...]]) -> None:
    state, ratio, moved_s = POLICY.initial_state(), 0.3, []
    adapter = TypeAdapter(StabilityState)
    for index, (swing, hot, hits) in enumerate(run):
        one = seen(30.0 * index, ratio, swing=swing, hot_requests_ratio=hot, cache_hit_ratio=hits)
        state, (proposal,) = POLICY.decide(state, one)
        assert adapter.validate_json(adapter.dump_json(state)) == state
        if proposal.wanted is not None and proposal.wanted != ratio:
            assert 0.3 <= proposal.wanted <= 0.4
            moved_s.append(30 * index)
            ratio = proposal.wanted
    assert all(b - a >= 600 for a, b in pairwise(moved_s))
