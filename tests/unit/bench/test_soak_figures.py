"""What the soak makes of requests and of the history."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime, timedelta

from bench.load import RequestRecord
from bench.soak import accounting, reversals, summary
from bench.soak.accounting import Ledger, account, limits_in_force
from domain.decision import Decision, Mode, Reason, Status
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_QUEUED_REQS, MAX_NUM_SEQS, NO_LIMIT, PURGE

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def failure(
    end_s: float, status: int | None = None, retry_after: str | None = None, took_s: float = 0.5
) -> RequestRecord:
    return RequestRecord(end_s - took_s, end_s, False, status, "short", f"HTTP {status}", retry_after)


def ledger(*records: RequestRecord) -> Ledger:
    made = Ledger()
    for record in records:
        made.take(record)
    return made


def change(
    at_s: float,
    old: float | None,
    new: float | None,
    knob: str = MAX_NUM_SEQS,
    status: Status = Status.APPLIED,
    boot_id: str = "boot-a",
) -> Decision:
    """A decision `at_s` seconds after the beginning; monotonic and Unix time differ by BEGAN here."""
    return Decision(
        at=BEGAN + timedelta(seconds=at_s),
        mode=Mode.AUTO,
        policy="batch_resize",
        knob=knob,
        old=old,
        wanted=new,
        requested=new,
        observed=new if status is Status.APPLIED else old,
        status=status,
        reason=Reason.GROW_DEMAND,
        sentence="so",
        evidence={},
        boot_id=boot_id,
    )


def seconds(decision: Decision) -> float:
    return (decision.at - BEGAN).total_seconds()


def test_a_failure_counts_unless_the_engine_was_away_while_it_was_under_way() -> None:
    found = account(
        ledger(failure(5.0), failure(10.2), failure(20.0), failure(40.6), failure(40.4)), [(10.0, 40.0)], []
    )
    assert (found.failed, found.restart, found.shed) == (2, 3, 0)


def test_a_503_is_shed_only_with_retry_after_and_while_a_recorded_limit_is_in_force() -> None:
    requests = ledger(failure(15.0, 503, "1"), failure(15.0, 503), failure(15.0, 500, "1"), failure(25.0, 503, "1"))
    found = account(requests, [], [(10.0, 20.0)])
    assert (found.failed, found.shed) == (3, 1)
    assert found.causes == {"HTTP 503": 2, "HTTP 500": 1}
    assert [one.end_s for one in found.failures] == [15.0, 15.0, 25.0]


def test_failures_beyond_those_kept_still_count() -> None:
    requests = ledger(failure(1.0))
    requests.lost = 7
    assert account(requests, [(0.0, 9.0)], []).failed == 7


def test_a_limit_is_in_force_from_its_change_to_its_release() -> None:
    queue = MAX_NUM_QUEUED_REQS
    decisions = [
        change(1.0, 64, 48),
        change(5.0, NO_LIMIT, 100, queue, Status.FAILED),
        change(10.0, NO_LIMIT, 100, queue),
        change(15.0, 100, 50, queue),
        change(20.0, 50, NO_LIMIT, queue),
        change(50.0, NO_LIMIT, 100, queue),
    ]
    grace_s = accounting.RELEASE_GRACE_S
    assert limits_in_force(decisions, [], seconds) == [(10.0, 20.0 + grace_s), (50.0, math.inf)]
    set_anew = (15.0, 20.0 + grace_s)
    assert limits_in_force(decisions, [12.0, 60.0], seconds) == [(10.0, 12.0), set_anew, (50.0, 60.0)]


def test_a_limit_that_is_set_anew_after_a_restart_is_in_force_again_though_the_first_was_never_let_go() -> None:
    decisions = [change(at_s, NO_LIMIT, 36, MAX_NUM_QUEUED_REQS) for at_s in (10.0, 50.0, 55.0)]
    assert limits_in_force(decisions, [30.0], seconds) == [(10.0, 30.0), (50.0, math.inf)]


def test_the_rate_counts_good_answers_of_whole_seconds() -> None:
    made = ledger(*(RequestRecord(9.0, 10.0 + n / 10, True, 200, "short", None) for n in range(10)), failure(10.5))
    assert made.requests_per_s(11.4, over_s=2) == 5.0


def test_a_reversal_is_a_change_against_the_direction_of_the_one_before() -> None:
    caps = [8, 16, 24, 20, 18, 24]
    found = reversals.count([change(10.0 * n, old, new) for n, (old, new) in enumerate(itertools.pairwise(caps))], 2.0)
    assert found.changes == {MAX_NUM_SEQS: 5}
    assert found.reversals == {MAX_NUM_SEQS: 2}
    assert found.worst_per_min == 1.0


def test_each_knob_has_its_own_direction() -> None:
    found = reversals.count([change(0, 8, 16), change(1, 2048, 1024, MAX_NUM_BATCHED_TOKENS), change(2, 16, 24)], 1.0)
    assert found.reversals == {MAX_NUM_SEQS: 0, MAX_NUM_BATCHED_TOKENS: 0}


def test_a_restart_of_the_engine_begins_the_direction_anew() -> None:
    up, down = change(0, 8, 16), change(5, 64, 48, boot_id="boot-b")
    assert reversals.count([up, down], 1.0).reversals == {MAX_NUM_SEQS: 0}
    assert reversals.count([up, change(5, 64, 48)], 1.0).reversals == {MAX_NUM_SEQS: 1}


def test_what_moved_nothing_is_no_change() -> None:
    still = [
        change(0, 8, 16),
        change(1, 16, 8, status=Status.FAILED),
        change(2, 16, 16),
        change(3, None, 8),
        change(4, 0.0, 0.5, PURGE),
        change(5, NO_LIMIT, NO_LIMIT, MAX_NUM_QUEUED_REQS),
    ]
    assert reversals.count(still, 1.0).changes == {MAX_NUM_SEQS: 1}


def test_a_switched_off_limit_is_the_highest_value() -> None:
    queue = MAX_NUM_QUEUED_REQS
    found = reversals.count([change(0, NO_LIMIT, 100, queue), change(1, 100, NO_LIMIT, queue)], 1.0)
    assert found.reversals == {queue: 1}


def test_the_most_in_one_minute_is_of_any_minute() -> None:
    turns = [(0, 1, 2), (50, 2, 1), (100, 1, 2), (105, 2, 1), (300, 1, 2)]
    found = reversals.count([change(at, old, new) for at, old, new in turns], 10.0)
    assert found.most_in_a_minute == {MAX_NUM_SEQS: 3}
    assert found.per_min == {MAX_NUM_SEQS: 0.4}


def test_the_document_has_no_longest_recovery_when_one_was_not_seen() -> None:
    figures = summary.summarise(ledger(), [], [], 0.0, 20.0)
    seen = {"what": "load: 64 clients", "began_s": 10.0, "ended_s": 10.0, "recovered_s": 1.23, "calls": 3}
    unseen = seen | {"recovered_s": None}
    assert summary.document(figures, [seen])["recover_s_max"] == 1.2
    assert summary.document(figures, [seen, unseen])["recover_s_max"] is None
    assert summary.document(figures, [seen])["faults"] == [
        {"what": "load: 64 clients", "began": 10.0, "ended": 10.0, "recovered_s": 1.2, "calls": 3}
    ]


def test_shed_windows_are_read_on_the_clock_of_the_load() -> None:
    decisions = [change(10.0, NO_LIMIT, 100, MAX_NUM_QUEUED_REQS)]
    requests = ledger(failure(1012.0, 503, "1"), failure(1008.0, 503, "1"))
    found = summary.summarise(requests, [], decisions, BEGAN.timestamp() - 1000.0, 20.0)
    assert (found.account.shed, found.account.failed) == (1, 1)
