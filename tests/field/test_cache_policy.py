"""A cache without hits, one with hits of its own recomputation, one that nobody asks: the policy's part of M10.

The Views are made by the real estimator from vLLM's counters; what the plugin would add is given where a case has it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from controller.estimation import Estimator
from domain.decision import Proposal, Reason
from domain.knobs import HOT_CACHE_RATIO, PURGE
from domain.readings.vllm import VllmReading
from domain.snapshot import Snapshot
from domain.view import View
from policies.cache_ratio import CacheRatio, CacheRatioSettings
from policies.stability import Stability, StabilitySettings
from tests.views import knob, runtime, with_knobs

AT = datetime(2026, 11, 30, tzinfo=UTC)
ENGINE = with_knobs(runtime(), knob(HOT_CACHE_RATIO, 0.35, 0.0, 0.0, 0.9))


def views(queries: float, hits: float, preemptions: float, hot: float | None) -> list[View]:
    """Two minutes of an engine whose counters gain that much every ten seconds."""
    estimator, made = Estimator(10.0), []
    for tick in range(13):
        reading = VllmReading(
            running=8.0,
            waiting=0.0,
            kv_cache_usage_ratio=0.2,
            preemptions=preemptions * tick,
            requests_finished=30.0 * tick,
            prefix_cache_queries=queries * tick,
            prefix_cache_hits=hits * tick,
        )
        snapshot = Snapshot(10.0 * tick, AT + timedelta(seconds=10 * tick), vllm=reading, runtime=ENGINE)
        seen = estimator.update(snapshot, ())
        made.append(replace(seen, hot_requests_ratio=hot, requests_per_s_swing_ratio=0.5, latency_slope_ratio=0.0))
    return made


def proposals(run: list[View]) -> list[Proposal]:
    cache, stability = CacheRatio(CacheRatioSettings()), Stability(StabilitySettings())
    made: list[Proposal] = []
    cache_state, state = cache.initial_state(), stability.initial_state()
    for one in run:
        cache_state, some = cache.decide(cache_state, one)
        state, others = stability.decide(state, one)
        made += [*some, *others]
    return made


def moved(made: list[Proposal]) -> list[Proposal]:
    return [p for p in made if p.knob == PURGE or (p.wanted is not None and p.wanted != 0.35)]


def test_no_hit_at_all_is_no_reason_for_a_purge_or_another_ratio() -> None:
    """M10, first input: queries +24000, hits +0, preemptions +0. The shared beginning was shorter than one block."""
    made = proposals(views(24000, 0, 0, hot=0.0))
    assert not moved(made)
    assert any(p.reason is Reason.HOLD_HIT_RATE and "0% of prompt tokens" in p.sentence for p in made)


def test_hits_of_recomputation_alone_raise_no_ratio() -> None:
    """M10, second input: hits = 32 % of queries with preemptions +480. What came back found its own tokens."""
    made = proposals(views(24000, 0.32 * 24000, 480, hot=0.5))
    assert not moved(made)
    assert any(p.reason is Reason.HOLD_PREEMPTING and "may hit their own" in p.sentence for p in made)


def test_the_same_hits_and_hot_requests_without_preemptions_do_raise_it() -> None:
    """The counterpart: the second input's load, had the hits been of other requests."""
    made = proposals(views(24000, 0.32 * 24000, 0, hot=0.5))
    assert {p.wanted for p in moved(made)} == {0.4}


def test_a_cache_that_nobody_asks_is_undefined_and_nothing_is_done() -> None:
    """M10, third input: queries +0."""
    run = views(0, 0, 0, hot=None)
    assert run[-1].cache_hit_ratio is None
    made = proposals(run)
    assert not moved(made)
    assert {p.reason for p in made} == {Reason.ABSTAIN_UNKNOWN}
