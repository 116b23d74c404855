"""The laws of cache_ratio: on once with the seeds' numbers, moved for the share of hot requests alone, rarely."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from domain.decision import Proposal, Reason
from domain.knobs import (
    COLD_CACHE_RECLAIM_THRESHOLD,
    COLD_TTL_S,
    HOT_CACHE_MIN_SIZE_MB,
    HOT_CACHE_RATIO,
    HOT_TTL_S,
)
from domain.runtime import EngineRuntime, Knob, Support
from domain.view import View
from policies.cache_ratio import CacheRatio, CacheRatioSettings, CacheRatioState
from tests.spells import lasting
from tests.views import knob, runtime, view, with_knobs

POLICY = CacheRatio(CacheRatioSettings())


def engine(ratio: float = 0.3, boot_id: str = "boot-a", fresh: bool = True) -> EngineRuntime:
    """With the tiers' other knobs as the plugin starts them, or as they were set."""
    return with_knobs(
        runtime(boot_id=boot_id),
        knob(HOT_CACHE_RATIO, ratio, 0.0, 0.0, 0.9),
        knob(HOT_CACHE_MIN_SIZE_MB, 0.0 if fresh else 2048.0, 0.0, 0.0, 1048576.0),
        knob(HOT_TTL_S, 900.0, 900.0, 1.0, 86400.0),
        knob(COLD_TTL_S, 120.0, 120.0, 1.0, 86400.0),
        knob(COLD_CACHE_RECLAIM_THRESHOLD, 1.0 if fresh else 0.8, 1.0, 0.0, 1.0),
    )


def seen(now_s: float, ratio: float = 0.3, hot: float | None = 0.35, **changes: Any) -> View:
    values: dict[str, Any] = {
        "runtime": engine(ratio, fresh=False),
        "hot_requests_ratio": hot,
        "cache_hit_ratio": 0.7,
        "latency_slope_ratio": 0.0,
    }
    return view(now_s, **(values | changes))


def over(*views: View, policy: CacheRatio = POLICY, state: CacheRatioState | None = None) -> dict[str, Proposal]:
    return run(*views, policy=policy, state=state)[1]


def run(
    *views: View, policy: CacheRatio = POLICY, state: CacheRatioState | None = None
) -> tuple[CacheRatioState, dict[str, Proposal]]:
    proposals: tuple[Proposal, ...] = ()
    state = policy.initial_state() if state is None else state
    for one in views:
        state, proposals = policy.decide(state, one)
    return state, {proposal.knob: proposal for proposal in proposals}


def ratio_after(*views: View, **how: Any) -> Proposal:
    return over(*views, **how)[HOT_CACHE_RATIO]


def steady(until_s: int = 70, **changes: Any) -> list[View]:
    return [seen(float(t), **changes) for t in range(0, until_s, 5)]


def test_the_tiers_are_switched_on_at_the_seeds_starting_point() -> None:
    proposal = ratio_after(seen(0.0, runtime=engine(0.0)))
    assert (proposal.wanted, proposal.reason) == (0.3, Reason.SET_UP)


def test_an_a100_starts_with_its_golden_set() -> None:
    proposal = ratio_after(seen(0.0, runtime=engine(0.0), gpu_names=("NVIDIA A100-SXM4-80GB",)))
    assert proposal.wanted == 0.35
    assert "A100-80G profile" in proposal.sentence


def test_the_tiers_stay_off_where_the_engine_carries_them_in_part_or_the_setting_says_so() -> None:
    limited = with_knobs(engine(0.0), Knob(HOT_CACHE_RATIO, 0.0, 0.0, 0.0, 0.9, Support.LIMITED, "a hybrid model"))
    part = ratio_after(seen(0.0, runtime=limited))
    assert (part.wanted, "a hybrid model" in part.sentence) == (0.0, True)
    never = CacheRatio(CacheRatioSettings(start=False))
    assert ratio_after(seen(0.0, runtime=engine(0.0)), policy=never).wanted == 0.0


def test_the_tiers_are_not_switched_on_blindly() -> None:
    blind = seen(0.0, runtime=engine(0.0), kv_cache_usage_ratio=None)
    assert ratio_after(blind).reason is Reason.ABSTAIN_UNKNOWN


def test_tiers_that_somebody_switched_off_stay_off_until_the_engine_restarts() -> None:
    state, made = run(seen(0.0), seen(1.0, runtime=engine(0.0)))
    assert (made[HOT_CACHE_RATIO].wanted, made[HOT_CACHE_RATIO].reason) == (0.0, Reason.HOLD_STEADY)
    again = ratio_after(seen(60.0, runtime=engine(0.0, boot_id="boot-b")), state=state)
    assert again.wanted == 0.3


def test_what_goes_with_the_tiers_is_set_once() -> None:
    off = over(seen(0.0, runtime=engine(0.0)))
    assert set(off) == {HOT_CACHE_RATIO}
    state, on = run(seen(0.0, runtime=engine(0.0)), seen(1.0, runtime=engine(0.3)))
    assert {name: p.wanted for name, p in on.items() if name != HOT_CACHE_RATIO} == {
        HOT_CACHE_MIN_SIZE_MB: 2048.0,
        COLD_CACHE_RECLAIM_THRESHOLD: 0.8,
    }
    state, done = run(seen(2.0), state=state)
    assert set(done) == {HOT_CACHE_RATIO}
    assert set(over(seen(3.0, runtime=engine(0.3)), state=state)) == {HOT_CACHE_RATIO}, "undone by somebody"


def test_the_lifetimes_of_the_settings_are_set_where_they_differ() -> None:
    short = CacheRatio(CacheRatioSettings(hot_ttl_s=600, cold_ttl_s=60))
    made = over(seen(0.0), policy=short)
    assert (made[HOT_TTL_S].wanted, made[COLD_TTL_S].wanted) == (600, 60)


def test_over_40_percent_hot_requests_for_a_minute_raise_the_ratio_by_005() -> None:
    views = steady(hot=0.45)
    assert ratio_after(*views[:12]).wanted == 0.3
    proposal = ratio_after(*views)
    assert (proposal.wanted, proposal.reason) == (0.35, Reason.HOT_SHARE_HIGH)
    assert "45% of the requests are hot (over 40%)" in proposal.sentence


def test_it_moves_at_most_every_ten_minutes_and_not_over_the_range() -> None:
    state, ratio, moves = POLICY.initial_state(), 0.3, []
    for second in range(0, 3000, 5):
        state, made = run(seen(float(second), ratio, hot=0.6), state=state)
        wanted = made[HOT_CACHE_RATIO].wanted
        if wanted != ratio:
            assert wanted is not None
            moves.append((second, wanted))
            ratio = wanted
    assert [wanted for _, wanted in moves] == [0.35, 0.4]
    assert moves[1][0] - moves[0][0] >= 600


def test_a_range_that_an_operator_widened_is_used() -> None:
    wide = CacheRatio(CacheRatioSettings(ratio_min=0.05, ratio_max=0.8))
    assert ratio_after(*steady(ratio=0.4, hot=0.5), policy=wide).wanted == pytest.approx(0.45)
    with pytest.raises(ValidationError):
        CacheRatioSettings(ratio_max=0.85)
    with pytest.raises(ValidationError):
        CacheRatioSettings(ratio_min=0.01)


def test_between_the_two_marks_it_rests() -> None:
    for hot in (0.30, 0.35, 0.40):
        proposal = ratio_after(*steady(1000, ratio=0.35, hot=hot))
        assert (proposal.wanted, proposal.reason) == (0.35, Reason.HOLD_DEAD_BAND)


def test_under_30_percent_it_goes_back_towards_where_it_started_and_no_further() -> None:
    proposal = ratio_after(*steady(ratio=0.4, hot=0.2))
    assert (proposal.wanted, proposal.reason) == (0.35, Reason.HOT_SHARE_LOW)
    assert ratio_after(*steady(ratio=0.3, hot=0.2)).wanted == 0.3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cache_hit_ratio": None}, Reason.ABSTAIN_UNKNOWN),
        ({"latency_slope_ratio": None}, Reason.ABSTAIN_UNKNOWN),
        ({"kv_cache_usage_ratio": None}, Reason.ABSTAIN_UNKNOWN),
        ({"preemptions_per_s": None}, Reason.ABSTAIN_UNKNOWN),
        ({"preemptions_per_s": 1.0}, Reason.HOLD_PREEMPTING),
        ({"latency_slope_ratio": 0.2}, Reason.HOLD_SLO_MARGIN),
        ({"ratio": 0.4}, Reason.HOLD_AT_LIMIT),
    ],
)
def test_hot_requests_alone_do_not_raise_it(changes: dict[str, Any], reason: Reason) -> None:
    proposal = ratio_after(*steady(hot=0.5, **changes))
    assert (proposal.wanted, proposal.reason) == (changes.get("ratio", 0.3), reason)


def test_a_hit_rate_under_60_percent_asks_for_a_look_at_the_requests_and_moves_nothing() -> None:
    proposal = ratio_after(*steady(cache_hit_ratio=0.24))
    assert (proposal.wanted, proposal.reason) == (0.3, Reason.HOLD_HIT_RATE)
    assert "24% of prompt tokens are found in the cache (under 60%)" in proposal.sentence


def test_a_ratio_over_the_advised_range_comes_back_when_hot_blocks_crowd_out_requests() -> None:
    crowded = steady(ratio=0.6, kv_cache_usage_ratio=0.99, preemptions_per_s=0.5)
    proposal = ratio_after(*crowded)
    assert (proposal.wanted, proposal.reason) == (0.4, Reason.HOT_RATIO_TOO_HIGH)
    assert ratio_after(*steady(ratio=0.6)).wanted == 0.6, "an operator's value is left alone otherwise"


def test_an_engine_without_tiers_is_left_alone() -> None:
    for one in (view(runtime=runtime()), view(runtime=None)):
        assert ratio_after(one).reason is Reason.ABSTAIN_UNKNOWN


RATIO = st.none() | st.floats(0.0, 1.0)
VIEWS = st.fixed_dictionaries(
    {
        "hot": RATIO,
        "cache_hit_ratio": RATIO,
        "kv_cache_usage_ratio": RATIO,
        "preemptions_per_s": st.none() | st.floats(0, 3),
        "latency_slope_ratio": st.none() | st.floats(-1, 1),
    }
)

HOT = st.fixed_dictionaries({"hot": st.sampled_from([0.2, 0.5])})
"""What moves it, where nothing speaks against it."""


@given(lasting(HOT | VIEWS, 40))
def test_from_inside_its_range_it_never_leaves_it_nor_moves_twice_in_ten_minutes(views: list[dict[str, Any]]) -> None:
    state, ratio, moved_s = POLICY.initial_state(), 0.3, []
    for index, values in enumerate(views):
        state, made = run(seen(30.0 * index, ratio, **values), state=state)
        wanted = made[HOT_CACHE_RATIO].wanted
        if wanted is not None and wanted != ratio:
            assert 0.3 <= wanted <= 0.4
            assert values["hot"] is not None
            moved_s.append(30 * index)
            ratio = wanted
    assert all(b - a >= 600 for a, b in pairwise(moved_s))


@given(st.lists(VIEWS, min_size=1, max_size=20))
def test_its_state_survives_json(views: list[dict[str, Any]]) -> None:
    adapter, state = TypeAdapter(CacheRatioState), POLICY.initial_state()
    for index, values in enumerate(views):
        state, _ = run(seen(30.0 * index, **values), state=state)
        assert adapter.validate_json(adapter.dump_json(state)) == state
