"""The laws of load_shed: bound the queue when the queue loses the objective and nothing else is left, let go calmly."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from domain.decision import Proposal, Reason
from domain.histogram import Histogram
from domain.knobs import MAX_NUM_QUEUED_REQS, NO_LIMIT
from domain.runtime import EngineRuntime
from domain.slo import Latency, Slo
from domain.view import View
from policies.batch_resize import BatchResizeSettings
from policies.load_shed import LoadShed, LoadShedSettings, LoadShedState
from tests.views import knob, runtime, samples, view, with_knobs

POLICY = LoadShed(LoadShedSettings())
TTFT = Slo(Latency.TTFT, 95, 2.0)


def engine(
    limit: float = NO_LIMIT, cap: int = 64, startup: float = NO_LIMIT, running: int = 64, maximum: int = 64
) -> EngineRuntime:
    base = runtime(cap=cap, running=running, waiting=300, maximum=maximum)
    return with_knobs(base, knob(MAX_NUM_QUEUED_REQS, limit, startup, 0, 1_000_000))


def ttft(total: float = 200, over: float = 60, queue_s: float = 3.0) -> dict[Latency, Histogram]:
    return {
        Latency.TTFT: samples(total, over, bound_s=2.0, mean_s=4.0),
        Latency.QUEUE: samples(total, over, bound_s=2.0, mean_s=queue_s),
    }


def overloaded(now_s: float, limit: float = NO_LIMIT, **changes: Any) -> View:
    """The queue breaks the objective, the cap is at its start-up maximum."""
    values: dict[str, Any] = {
        "runtime": engine(limit),
        "slos": (TTFT,),
        "latencies": ttft(),
        "waiting": 300.0,
        "demand": 300.0,
        "running": 64.0,
        "rejected_ratio": 0.0,
        "requests_per_s": 400.0,
    }
    return view(now_s, **(values | changes))


LOUD: dict[str, Any] = {}
CALM: dict[str, Any] = {"latencies": ttft(over=0), "waiting": 3.0, "demand": 3.0}


def calm(now_s: float, limit: float = 100, **changes: Any) -> View:
    return overloaded(now_s, limit, **(CALM | changes))


def over(*views: View, state: LoadShedState | None = None) -> tuple[LoadShedState, Proposal]:
    state = POLICY.initial_state() if state is None else state
    proposals: tuple[Proposal, ...] = ()
    for one in views:
        state, proposals = POLICY.decide(state, one)
    return state, proposals[-1]


def test_a_queue_that_loses_the_objective_with_the_cap_at_its_maximum_is_bounded_at_100() -> None:
    _, proposal = over(*(overloaded(float(t)) for t in range(7)))
    assert (proposal.wanted, proposal.reason) == (100, Reason.SHED_QUEUE)
    assert "the cap of 64 is the start-up maximum" in proposal.sentence
    assert "30.0% of 200 time_to_first_token samples are over 2000 ms" in proposal.sentence


def test_a_short_breach_is_waited_out() -> None:
    _, proposal = over(overloaded(0.0), overloaded(2.0), overloaded(3.0, latencies=ttft(over=0)), overloaded(6.0))
    assert proposal.wanted == NO_LIMIT


@pytest.mark.parametrize(
    "changes",
    [
        {"slos": ()},
        {"slos": (replace(TTFT, proposed=True),)},
        {"latencies": ttft(queue_s=0.5)},
        {"latencies": ttft(over=12)},
        {"demand": 0.0},
        {"runtime": engine(cap=32, running=32)},
        {"runtime": engine(cap=32, running=10), "kv_cache_usage_ratio": None},
    ],
    ids=[
        "no objective",
        "an objective that nobody set",
        "not the queue",
        "noise",
        "nobody waits",
        "the cap was raised just now",
        "the cap is not full",
    ],
)
def test_nobody_is_turned_away_without_cause(changes: dict[str, Any]) -> None:
    _, proposal = over(*(overloaded(float(t), **changes) for t in range(12)))
    assert (proposal.wanted, proposal.reason) == (NO_LIMIT, Reason.HOLD_STEADY)


@pytest.mark.parametrize(
    "changes", [{"latencies": {}}, {"demand": None}, {"latencies": {Latency.TTFT: ttft()[Latency.TTFT]}}]
)
def test_nobody_is_turned_away_for_what_is_not_known(changes: dict[str, Any]) -> None:
    _, proposal = over(*(overloaded(float(t), **changes) for t in range(60)))
    assert proposal.wanted == NO_LIMIT
    assert "not known" in proposal.sentence


def test_a_full_kv_cache_is_a_limit_of_the_cap_too() -> None:
    full = [overloaded(float(t), runtime=engine(cap=32, running=30), kv_cache_usage_ratio=0.95) for t in range(7)]
    assert "the KV cache is 95% used" in over(*full)[1].sentence


def test_a_cap_that_binds_and_is_not_raised_for_half_a_minute_is_at_its_limit() -> None:
    views = [overloaded(float(t), runtime=engine(cap=32, running=32)) for t in range(37)]
    assert over(*views[:30])[1].wanted == NO_LIMIT
    assert "was not raised for 36 s" in over(*views)[1].sentence


def test_the_limit_of_the_cards_profile_is_a_limit_of_the_cap_as_is_one_that_was_set() -> None:
    below = engine(cap=64, maximum=128, running=60)
    card = [overloaded(float(t), runtime=below, gpu_names=("NVIDIA A100-SXM4-80GB",)) for t in range(7)]
    assert "the cap of 64 is the hardware's limit" in over(*card)[1].sentence
    own = LoadShed(LoadShedSettings(), BatchResizeSettings(hardware_limit=64))
    state = own.initial_state()
    for t in range(7):
        state, (proposal,) = own.decide(state, overloaded(float(t), runtime=below))
    assert proposal.wanted == 100


def test_full_steps_at_a_budget_that_is_not_raised_for_half_a_minute_are_a_limit_too() -> None:
    half_empty = engine(cap=48, running=30)
    views = [overloaded(float(t), runtime=half_empty, batch_utilization_ratio=0.97) for t in range(37)]
    assert over(*views[:30])[1].wanted == NO_LIMIT
    assert "steps are full at 2048 tokens, which was not raised for 36 s" in over(*views)[1].sentence
    slack = [overloaded(float(t), runtime=half_empty, batch_utilization_ratio=0.6) for t in range(60)]
    assert over(*slack)[1].wanted == NO_LIMIT


@pytest.mark.parametrize(("rate", "limit"), [(20.0, 20), (3.7, 3), (0.2, 1), (0.0, 100), (None, 100), (500.0, 100)])
def test_so_many_may_wait_as_are_served_in_half_of_the_bound_and_never_more_than_100(
    rate: float | None, limit: int
) -> None:
    """A rate that is not known, or that no request has made yet, is none to count on."""
    _, proposal = over(*(overloaded(float(t), requests_per_s=rate) for t in range(7)))
    assert (proposal.wanted, proposal.reason) == (limit, Reason.SHED_QUEUE)


def test_the_hardest_objective_that_somebody_set_says_how_many_may_wait() -> None:
    slos = (TTFT, replace(TTFT, bound_s=1.0), replace(TTFT, bound_s=0.1, proposed=True))
    assert over(*(overloaded(float(t), slos=slos, requests_per_s=20.0) for t in range(7)))[1].wanted == 10


def test_the_limit_stays_what_it_was_when_the_queue_was_bounded() -> None:
    state, first = over(*(overloaded(float(t), requests_per_s=20.0) for t in range(7)))
    _, later = over(*(overloaded(float(t), 20, requests_per_s=rate) for t, rate in ((7, 9.0), (8, 40.0))), state=state)
    assert (first.wanted, later.wanted, later.reason) == (20, 20, Reason.HOLD_QUEUE_BREACH)


ON_TIME: dict[str, Any] = {"latencies": ttft(over=5), "oldest_waiting_s": 1.1, "waiting": 40.0, "demand": 40.0}
"""Nobody was late so far, but the first in the queue has waited over half of the 2 s."""


def test_a_queue_that_will_lose_the_objective_is_bounded_before_anybody_is_late() -> None:
    views = [overloaded(float(t), requests_per_s=20.0, **ON_TIME) for t in range(7)]
    assert over(*views[:2])[1].wanted == NO_LIMIT
    proposal = over(*views)[1]
    assert (proposal.wanted, proposal.reason) == (20, Reason.SHED_QUEUE)
    assert "40 wait, some of them for 2 of 2 s" in proposal.sentence
    assert "as many as 20 requests/s serve in 1 of 2 s" in proposal.sentence


def test_a_long_wait_at_the_limit_is_cause_while_a_change_has_just_begun_a_new_window() -> None:
    """Then no time to first token is measured yet; who waits is known at any time."""
    views = [overloaded(float(t), **{**ON_TIME, "latencies": {} if t % 3 == 1 else ttft(over=5)}) for t in range(7)]
    assert over(*views)[1].reason is Reason.SHED_QUEUE


@pytest.mark.parametrize(
    "changes", [{"oldest_waiting_s": None, "requests_per_s": 20.0}, {"oldest_waiting_s": 1.1, "requests_per_s": None}]
)
def test_either_the_first_in_the_queue_or_the_rate_is_enough_to_see_it_coming(changes: dict[str, Any]) -> None:
    _, proposal = over(*(overloaded(float(t), **{**ON_TIME, **changes}) for t in range(7)))
    assert proposal.reason is Reason.SHED_QUEUE


@pytest.mark.parametrize(
    "changes",
    [
        {"oldest_waiting_s": 0.9},
        {"oldest_waiting_s": None},
        {"demand": 0.0},
        {"demand": None},
        {"oldest_waiting_s": 0.0, "requests_per_s": 41.0},
        {"runtime": engine(running=30)},
        {"runtime": engine(running=30), "batch_utilization_ratio": 0.5},
        {"runtime": engine(cap=32, running=32)},
        {"slos": (replace(TTFT, proposed=True),)},
    ],
    ids=[
        "not long",
        "not known",
        "not for room",
        "for what is not known",
        "the last is served in time",
        "whether anything is full is not known",
        "nothing is full",
        "the cap may rise",
        "nobody set an objective",
    ],
)
def test_a_wait_is_no_cause_unless_it_is_long_and_for_what_is_used_up(changes: dict[str, Any]) -> None:
    _, proposal = over(*(overloaded(float(t), **{**ON_TIME, **changes}) for t in range(20)))
    assert proposal.wanted == NO_LIMIT


def test_a_short_limit_is_let_go_when_no_more_than_half_of_it_wait() -> None:
    state, _ = over(*(overloaded(float(t), requests_per_s=20.0) for t in range(7)))
    after = [calm(float(t), 20, waiting=waiting) for t, waiting in ((t, 11.0) for t in range(8, 90, 2))]
    assert over(*after, state=state)[1].wanted == 20
    after = [calm(float(t), 20, waiting=10.0) for t in range(8, 90, 2)]
    assert over(*after, state=state)[1].reason is Reason.SHED_RELEASE


def test_an_engine_that_was_started_with_a_shorter_queue_keeps_it() -> None:
    views = [overloaded(float(t), runtime=engine(limit=50, startup=50)) for t in range(10)]
    assert over(*views)[1].wanted == 50


def test_the_queue_is_let_go_after_a_minute_of_calm() -> None:
    state, _ = over(*(overloaded(float(t)) for t in range(7)))
    state, held = over(*(calm(float(t)) for t in range(8, 60, 2)), state=state)
    assert (held.wanted, held.reason) == (100, Reason.HOLD_QUEUE_BREACH)
    _, released = over(*(calm(float(t)) for t in range(60, 70, 2)), state=state)
    assert (released.wanted, released.reason) == (NO_LIMIT, Reason.SHED_RELEASE)


def test_a_release_that_is_held_back_is_proposed_again_at_once() -> None:
    state, _ = over(*(overloaded(float(t)) for t in range(7)))
    _, released = over(*(calm(float(t)) for t in range(8, 80, 2)), state=state)
    assert released.wanted == NO_LIMIT


@pytest.mark.parametrize(
    "changes",
    [
        {"waiting": None},
        {"latencies": {}},
        {"latencies": ttft(total=10, over=0)},
        {"latencies": ttft(over=8)},
        {"waiting": 60.0},
        {"waiting": 0.0, "running": None, "latencies": {}},
    ],
)
def test_the_queue_is_not_let_go_on_what_is_unknown_thin_or_near_the_bound(changes: dict[str, Any]) -> None:
    state, _ = over(*(overloaded(float(t)) for t in range(7)))
    _, proposal = over(*(calm(float(t), **changes) for t in range(8, 300, 2)), state=state)
    assert proposal.wanted == 100


def test_an_engine_without_work_lets_the_queue_go() -> None:
    state, _ = over(*(overloaded(float(t)) for t in range(7)))
    idle: dict[str, Any] = {"waiting": 0.0, "running": 0.0, "demand": 0.0, "latencies": {}}
    assert over(*(calm(float(t), **idle) for t in range(8, 80, 2)), state=state)[1].wanted == NO_LIMIT


def test_a_limit_that_is_found_in_force_is_let_go_as_its_own() -> None:
    """After a restart of the daemon nobody remembers whose it was."""
    assert over(*(calm(float(t)) for t in range(0, 56, 2)))[1].wanted == 100
    assert over(*(calm(float(t)) for t in range(0, 66, 2)))[1].reason is Reason.SHED_RELEASE


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(0.002, "0.20% are turned away (under 0.5%)"), (0.02, "2.00% are turned away (over 1.0%)"), (None, "not known")],
)
def test_what_is_turned_away_is_said_with_the_marks_of_the_seeds(ratio: float | None, said: str) -> None:
    state, _ = over(*(overloaded(float(t)) for t in range(7)))
    _, proposal = over(overloaded(8.0, 100, rejected_ratio=ratio), state=state)
    assert said in proposal.sentence
    assert proposal.evidence["rejected_ratio"] == ratio


def test_an_engine_without_a_queue_limit_is_left_alone() -> None:
    for one in (view(runtime=runtime()), view(runtime=None)):
        assert over(one)[1].reason is Reason.ABSTAIN_UNKNOWN


def test_marks_that_do_not_ascend_are_refused() -> None:
    with pytest.raises(ValidationError, match="rejected_alert_ratio"):
        LoadShedSettings(rejected_pass_ratio=0.02)


VIEWS = st.fixed_dictionaries(
    {
        "latencies": st.just({}) | st.builds(ttft, st.just(200.0), st.floats(0, 200), st.floats(0, 5)),
        "waiting": st.none() | st.floats(0, 400),
        "demand": st.none() | st.floats(0, 400),
        "running": st.none() | st.floats(0, 64),
        "kv_cache_usage_ratio": st.none() | st.floats(0, 1),
    }
)

TURNS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 120)), min_size=1, max_size=6).map(
    lambda spells: [changes for loud, quiet in spells for changes in (*[LOUD] * loud, *[CALM] * quiet)]
)
"""Overload, and calm after it: so many seconds of each."""


@given(TURNS | st.lists(VIEWS, min_size=1, max_size=200))
def test_it_only_ever_wants_the_limit_or_none_and_turns_round_at_most_once_a_minute(run: list[dict[str, Any]]) -> None:
    state, limit, turned = POLICY.initial_state(), NO_LIMIT, []
    for second, values in enumerate(run):
        state, (proposal,) = POLICY.decide(state, overloaded(float(second), limit, **values))
        assert proposal.wanted in (100, NO_LIMIT)
        if proposal.wanted != limit:
            limit = proposal.wanted
            turned += [second] if math.isinf(limit) else []
    assert all(b - a >= 60 for a, b in pairwise(turned))


@given(st.lists(VIEWS, min_size=1, max_size=60))
def test_it_never_lets_go_while_nobody_knows_how_many_wait(run: list[dict[str, Any]]) -> None:
    state = over(*(overloaded(float(t)) for t in range(7)))[0]
    for second, values in enumerate(run):
        blind = overloaded(10.0 + 5 * second, 100, **{**values, "waiting": None})
        state, (proposal,) = POLICY.decide(state, blind)
        assert proposal.wanted == 100


@given(st.lists(VIEWS, min_size=1, max_size=20))
def test_its_state_survives_json(run: list[dict[str, Any]]) -> None:
    adapter, state = TypeAdapter(LoadShedState), POLICY.initial_state()
    for second, values in enumerate(run):
        state, _ = POLICY.decide(state, overloaded(float(second), 100, **values))
        assert adapter.validate_json(adapter.dump_json(state)) == state
