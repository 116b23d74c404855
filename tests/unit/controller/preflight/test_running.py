"""Many checks, one run: what hangs or breaks takes no other with it; what turned bad is followed from run to run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.preflight.drift import Drift
from controller.preflight.result import (
    FAIL,
    NOT_APPLICABLE,
    PASS,
    UNKNOWN,
    WARN,
    Check,
    Found,
    Report,
    Result,
    State,
    worst,
)
from controller.preflight.running import Runner
from controller.preflight.surroundings import Surroundings
from controller.settings import Settings

NOW = datetime(2026, 12, 1, tzinfo=UTC)
AROUND = Surroundings(Settings(), NOW)


def result(name: str, state: State) -> Result:
    return Result(name, state, "", None, "", "")


def check(name: str, look: object) -> Check:
    return Check(name, "", "", frozenset(), look)  # type: ignore[arg-type]


def passes(_around: Surroundings) -> Found:
    return Found(PASS, "well")


@pytest.fixture
def door() -> Iterator[threading.Event]:
    """Shut until the test ends."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_check_that_hangs_is_unknown_and_the_others_are_run(door: threading.Event) -> None:
    begun = []

    def hangs(_around: Surroundings) -> Found:
        begun.append(1)
        door.wait(60)
        return Found(PASS, "late")

    runner = Runner((check("first", passes), check("hangs", hangs), check("last", passes)), limit_s=0.05)
    for _ in range(2):
        report = await runner.run(AROUND)
        assert [(one.name, one.state) for one in report.results] == [
            ("first", PASS),
            ("hangs", UNKNOWN),
            ("last", PASS),
        ]
    assert len(begun) == 1, "one that hangs is not begun again"
    assert "a file system or a program hangs" in report.results[1].why


async def test_only_those_asked_for_are_run_in_their_own_order() -> None:
    runner = Runner(tuple(check(name, passes) for name in ("a", "b", "c")))
    assert [one.name for one in (await runner.run(AROUND, ["c", "a"])).results] == ["a", "c"]


@given(st.lists(st.sampled_from(State)))
def test_a_report_is_as_bad_as_its_worst_and_what_is_unknown_decides_nothing(states: list[State]) -> None:
    state = Report(NOW, tuple(result(f"{n}", one) for n, one in enumerate(states))).state
    assert state is worst(states)
    assert (state is FAIL) == (FAIL in states)
    assert (state is WARN) == (WARN in states and FAIL not in states)
    assert state in (PASS, WARN, FAIL)


def test_what_was_good_and_is_bad_is_worse_until_it_is_good_again() -> None:
    drift = Drift()
    seen = []
    for state in (FAIL, PASS, WARN, FAIL, UNKNOWN, PASS, FAIL, NOT_APPLICABLE, FAIL):
        drift = drift.follow([result("disk", state)])
        seen.append(sorted(drift.worse))
    assert seen == [[], [], ["disk"], ["disk"], ["disk"], [], ["disk"], [], []]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(State))))
def test_a_check_is_never_both_good_and_worse_and_drift_outlives_the_daemon(
    runs: list[tuple[str, State]],
) -> None:
    drift = Drift()
    for name, state in runs:
        before, drift = drift, drift.follow([result(name, state)])
        assert not drift.good & drift.worse
        assert drift.worse - before.worse <= before.good
        assert Drift.from_json(drift.to_json()) == drift


@pytest.mark.parametrize("kept", [None, {}, {"good": 3, "worse": []}])
def test_what_is_no_memory_of_it_is_none(kept: dict[str, object] | None) -> None:
    assert Drift.from_json(kept) == Drift()
