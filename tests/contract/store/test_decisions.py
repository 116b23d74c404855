"""Runs and decisions: one law for every database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone

import pytest
from sqlalchemy import delete

from domain.decision import Reason, Status
from domain.errors import HistoryUnavailable
from domain.outcome import Verdict
from store.history import History
from store.models import DecisionRow
from tests.contract.store.samples import AT, ENGINE, OUTCOME, decision
from tests.views import runtime


async def test_a_decision_comes_back_as_it_went_in_with_its_run(history: History) -> None:
    run = await history.runs.start(AT, ENGINE, runtime())
    written = decision()
    (number,) = await history.decisions.add(run, [written])
    (stored,) = await history.decisions.select()
    assert (stored.id, stored.run_id) == (number, run)
    assert stored.decision == replace(written, boot_id="boot-a", node="gpu1")
    found = await history.decisions.one(number)
    assert found is not None
    assert found[1] is not None
    assert (found[1].started_at, found[1].engine_url, found[1].boot_id) == (AT, ENGINE, "boot-a")
    assert found[1].envelope == runtime().envelope
    assert await history.decisions.one(number + 1) is None


async def test_a_boot_that_is_written_twice_is_one_run(history: History) -> None:
    first = await history.runs.start(AT, ENGINE, runtime())
    assert await history.runs.start(AT, ENGINE, runtime()) == first
    assert await history.runs.start(AT, ENGINE, runtime(boot_id="boot-b")) != first


async def test_a_decision_that_is_written_twice_is_one_row_and_stays_as_it_became(history: History) -> None:
    one, other = decision(), decision(1)
    assert one.uid is not None
    (number,) = await history.decisions.add(None, [one])
    await history.decisions.conclude(one.uid, Status.APPLIED, 16, None)
    again = await history.decisions.add(None, [one, other])
    assert again[0] == number
    stored = await history.decisions.select()
    assert [row.id for row in stored] == again
    assert [row.decision.status for row in stored] == [Status.APPLIED, Status.INTENDED]


async def test_text_that_no_database_takes_as_it_is_loses_no_decision(history: History) -> None:
    """Too long for its column, with a NUL, half of a surrogate pair: an engine's answer may have all of it."""
    bad = "p\x00\ud800, 增加"
    odd = decision(policy=bad + "o" * 100, sentence=bad, error=bad, evidence={bad: bad}, guards=(bad,))
    run = await history.runs.start(AT, ENGINE, replace(runtime(), vllm_version="0.32.0+" + "x" * 100))
    await history.decisions.add(run, [odd])
    (stored,) = [row.decision for row in await history.decisions.select(policy=odd.policy)]
    good = "p\N{REPLACEMENT CHARACTER}?, 增加"
    assert (stored.policy, stored.sentence, stored.error) == ((good + "o" * 100)[:64], good, good)
    assert (stored.evidence, stored.guards) == ({bad: bad}, (bad,))
    assert (await history.moments.at(AT))[0].run.vllm_version == ("0.32.0+" + "x" * 100)[:64]


async def test_a_number_is_never_given_again(history: History) -> None:
    """A wrong clock's rows are set apart; what people noted of them must not become another decision."""
    first = await history.decisions.add(None, [decision(), decision(1)])
    async with history.database.transaction() as session:
        await session.execute(delete(DecisionRow))
    await history.decisions.add(None, [decision(2)])
    (stored,) = await history.decisions.select()
    assert stored.id > max(first)


async def test_what_became_of_a_change_is_written_to_it_alone(history: History) -> None:
    changes = [decision(second) for second in range(3)]
    await history.decisions.add(None, changes)
    uid = str(changes[1].uid)
    await history.decisions.conclude(uid, Status.DIVERGED, 12, "it reads 12")
    await history.decisions.judge({uid: OUTCOME})
    stored = [row.decision for row in await history.decisions.select()]
    assert stored[1] == replace(
        changes[1], node="gpu1", status=Status.DIVERGED, observed=12, error="it reads 12", outcome=OUTCOME
    )
    assert [stored[0], stored[2]] == [replace(change, node="gpu1") for change in (changes[0], changes[2])]


async def test_each_filter_takes_what_fits_it_oldest_first(history: History) -> None:
    rows = [
        decision(0),
        decision(1, knob="hot_cache_ratio", policy="cache"),
        decision(2, status=Status.HOLD, reason=Reason.HOLD_STEADY),
        decision(3, outcome=OUTCOME),
    ]
    numbers = await history.decisions.add(None, rows)

    async def found(**which: object) -> list[int]:
        stored = await history.decisions.select(**which)  # type: ignore[arg-type]
        return [numbers.index(row.id) for row in stored]

    assert await found() == [0, 1, 2, 3]
    assert await found(limit=2) == [2, 3]
    assert await found(limit=2, before_id=numbers[3]) == [1, 2]
    assert await found(after_id=numbers[1]) == [2, 3]
    assert await found(since=rows[1].at, until=rows[3].at) == [1, 2]
    assert await found(knob="hot_cache_ratio") == [1]
    assert await found(policy="cache") == [1]
    assert await found(reason=Reason.HOLD_STEADY) == [2]
    assert await found(status=Status.HOLD) == [2]
    assert await found(verdict=Verdict.WORSE) == [3]
    assert await found(changes_only=True) == [0, 1, 3]
    assert await found(node="gpu2") == []
    following = await history.decisions.next(after_id=numbers[0], changes_only=True)
    assert following is not None
    assert following.id == numbers[1]


async def test_a_time_of_another_zone_is_the_same_moment(history: History) -> None:
    there = AT.astimezone(timezone(timedelta(hours=8)))
    await history.decisions.add(None, [decision()])
    assert len(await history.decisions.select(since=there, until=there + timedelta(microseconds=1))) == 1
    assert await history.decisions.select(since=there + timedelta(microseconds=1)) == []


async def test_a_number_that_is_not_finite_is_null_in_the_evidence(history: History) -> None:
    """No JSON has a word for it, and PostgreSQL refuses one."""
    await history.decisions.add(None, [decision(evidence={"ratio": float("nan"), "limit": float("inf"), "n": 1.5})])
    (stored,) = await history.decisions.select()
    assert stored.decision.evidence == {"ratio": None, "limit": None, "n": 1.5}


async def test_a_decision_of_a_run_that_is_not_there_is_refused_and_leaves_nothing(history: History) -> None:
    with pytest.raises(HistoryUnavailable, match=r"(?i)foreign key"):
        await history.decisions.add(999, [decision()])
    assert await history.decisions.select() == []


async def test_thousands_of_decisions_at_once_all_get_their_numbers(history: History) -> None:
    rows = [decision(second) for second in range(2500)]
    numbers = await history.decisions.add(None, rows)
    assert numbers == sorted(set(numbers))
    stored = await history.decisions.select()
    assert [row.decision.uid for row in stored] == [row.uid for row in rows]
