"""What the react bench makes of the ticks and the changes that it saw. No vLLM."""

from __future__ import annotations

import math

import pytest

from bench.react.listener import calm, cut
from bench.react.summary import Breach, Seen, seen, summarise
from domain.histogram import Histogram
from domain.knobs import MAX_NUM_SEQS
from domain.slo import Latency
from tests import views

CUT = {"knob": MAX_NUM_SEQS, "status": "applied", "reason": "shrink_inference_slo"}


def tick(at_s: float, *, passes: bool) -> Seen:
    return Seen(at_s, passes, 0.02)


def test_it_is_timed_from_the_first_snapshot_that_passes_and_not_from_the_load() -> None:
    ticks = [tick(1.0, passes=False), tick(1.5, passes=True), tick(2.0, passes=True)]
    found = summarise([Breach(0.9, 2.2)], ticks, tick_s=0.5)
    assert (found["breach_to_applied_s_p99"], found["load_to_applied_s_p99"]) == (0.7, 1.3)
    assert found["goal_s"] == pytest.approx(0.5 + 0.02 + 0.1)


def test_a_snapshot_of_the_breach_before_is_not_taken_for_this_ones() -> None:
    ticks = [tick(1.0, passes=True), tick(3.0, passes=True)]
    found = summarise([Breach(0.5, 1.1), Breach(2.0, 3.2)], ticks, tick_s=0.5)
    assert (found["n"], found["breach_to_applied_s_p50"], found["breach_to_applied_s_p99"]) == (2, 0.1, 0.2)


def test_a_breach_that_had_no_change_took_at_least_as_long_as_it_was_waited_for() -> None:
    found = summarise([Breach(0.0, 15.0, answered=False)], [tick(1.0, passes=True)], tick_s=0.5)
    assert (found["n"], found["unanswered"], found["breach_to_applied_s_p99"]) == (1, 1, 14.0)


def test_a_load_that_broke_nothing_is_told_and_not_timed() -> None:
    found = summarise([Breach(5.0, 6.0), Breach(7.0, 22.0, answered=False)], [tick(1.0, passes=True)], tick_s=0.5)
    assert (found["n"], found["unseen"], found["provoked"], found["unanswered"]) == (0, 2, 2, 0)
    assert (found["breach_to_applied_s_p99"], found["goal_s"]) == (None, None)


def test_the_gate_is_the_objective_broken_beyond_noise_on_samples_enough() -> None:
    def of(total: float, over: float) -> bool:
        itl = Histogram((0.05, math.inf), (total - over, total), total * 0.04)
        return seen(0.0, views.view(slos=(views.ITL_SLO,), latencies={Latency.ITL: itl})).passes

    assert of(1000, 200)
    assert not of(1000, 50)
    assert not of(19, 19)


def test_only_a_cut_for_the_objective_that_was_read_back_answers_a_breach() -> None:
    assert cut("decision", CUT)
    assert not cut("decision", {**CUT, "status": "recorded"})
    assert not cut("decision", {**CUT, "reason": "operator_override"})
    assert not cut("tick", {})


def test_it_is_calm_once_the_objective_is_measured_and_kept_under_the_cap_of_the_start() -> None:
    kept = {"knobs": {MAX_NUM_SEQS: 48.0}, "objectives": [{"over_ratio": 0.01, "allowed_ratio": 0.05}]}
    assert calm(48)("tick", kept)
    assert not calm(48)("tick", {**kept, "knobs": {MAX_NUM_SEQS: 32.0}})
    assert not calm(48)("tick", {**kept, "objectives": [{"over_ratio": None, "allowed_ratio": 0.05}]})
    assert not calm(48)("tick", {**kept, "objectives": [{"over_ratio": 0.06, "allowed_ratio": 0.05}]})
