"""What a step's requests came to, and when a limit is met."""

from __future__ import annotations

from loadtest.answer import Answer
from loadtest.ledger import UNANSWERED, Account
from loadtest.plan import Limits, Plan, Step

STEP = Step("limit", 100.0, 60.0)


def account(*, ok: int = 0, took_s: float = 0.1, failed: int = 0, out: int = 0, late_s: float = 0.0) -> Account:
    """One whose requests were all due at 0 s."""
    made = Account(STEP)
    for number in range(ok + failed + out):
        sent = made.begin(0.0, late_s)
        if number < ok:
            made.end(sent, Answer(first_s=0.05, took_s=took_s))
        elif number < ok + failed:
            made.end(sent, Answer(cause="HTTP 503"))
    return made


def test_a_limit_is_met_beyond_it_and_not_at_it() -> None:
    assert account(ok=198, failed=2).met(Limits(), 1.0, at_end=False) is None
    assert "error rate: 1.5% of 200" in (account(ok=197, failed=3).met(Limits(), 1.0, at_end=False) or "")
    assert account(ok=200, took_s=3.0).met(Limits(), 3.0, at_end=False) is None
    assert "P99 latency: 3.10 s" in (account(ok=200, took_s=3.1).met(Limits(), 3.2, at_end=False) or "")


def test_one_slow_answer_in_a_hundred_is_no_p99() -> None:
    made = account(ok=99)
    made.end(made.begin(0.0, 0.0), Answer(took_s=9.0))
    assert made.met(Limits(), 9.0, at_end=False) is None


def test_a_step_is_cut_short_on_a_hundred_requests_and_judged_at_its_end_on_any() -> None:
    few = account(ok=20, failed=5)
    assert few.met(Limits(), 1.0, at_end=False) is None
    assert few.met(Limits(), 1.0, at_end=True) is not None


def test_a_server_that_stands_still_breaks_p99_although_it_completes_nothing() -> None:
    stalled = account(ok=100, out=50)
    assert stalled.met(Limits(), 2.9, at_end=False) is None
    assert "P99 latency: 3.10 s" in (stalled.met(Limits(), 3.1, at_end=False) or "")


def test_a_load_generator_that_is_late_is_told_before_its_server_is_blamed() -> None:
    met = account(ok=200, took_s=9.0, late_s=1.0).met(Limits(), 9.0, at_end=True)
    assert met is not None
    assert met.startswith("load generator late")


def test_whoever_has_no_answer_at_the_end_failed_once() -> None:
    made = account(ok=1, out=1)
    made.give_up()
    made.end(2, Answer(took_s=99.0))
    assert (made.due, made.failed, len(made.took_s)) == (2, 1, 1)
    assert made.figures()["causes"] == {UNANSWERED: 1}


def test_figures_of_nothing_are_unknown_and_not_zero() -> None:
    found = Account(STEP).figures()
    assert [found[name] for name in ("error_ratio", "p50_s", "p99_s", "ok_per_s", "memory_peak_ratio")] == [None] * 5


def test_the_seeds_plan_is_the_default() -> None:
    steps = list(Plan().steps())
    assert [(step.qps, step.seconds) for step in steps[:5]] == [(10, 900), (30, 900), (50, 900), (70, 60), (90, 60)]
    assert steps[-1].qps == 990
