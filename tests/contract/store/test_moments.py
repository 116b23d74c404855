"""What was in force at a moment: one law for every database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest

from domain.decision import Status
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS, NO_LIMIT
from domain.runtime import EngineRuntime
from store.history import History
from store.moments import InForce
from tests.contract.conftest import Opened
from tests.contract.store.samples import AT, ENGINE, decision
from tests.views import knob, runtime, with_knobs


def after(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


async def held(history: History, at: datetime, node: str | None = None) -> Mapping[str, InForce]:
    (moment,) = await history.moments.at(at, node)
    return {one.knob: one for one in moment.values}


async def test_before_a_change_it_is_the_value_of_the_start_then_the_one_read_back(history: History) -> None:
    run = await history.runs.start(AT, ENGINE, runtime())
    change = decision(10, status=Status.APPLIED, old=64, requested=32, observed=32)
    hold = decision(20, status=Status.HOLD, old=32, wanted=32, requested=None)
    numbers = await history.decisions.add(run, [change, hold])
    start = await held(history, after(9))
    assert (start[MAX_NUM_SEQS].value, start[MAX_NUM_SEQS].known, start[MAX_NUM_SEQS].decision) == (64, True, None)
    then = await held(history, after(10))
    told = then[MAX_NUM_SEQS].decision
    assert told is not None
    assert (then[MAX_NUM_SEQS].value, told.id) == (32, numbers[0])
    assert then[MAX_NUM_BATCHED_TOKENS].value == 2048
    later = (await held(history, after(99)))[MAX_NUM_SEQS]
    assert later.decision is not None
    assert (later.value, later.decision.id) == (32, numbers[1])


@pytest.mark.parametrize(
    ("changes", "value", "known"),
    [
        ({"status": Status.INTENDED}, None, False),
        ({"status": Status.FAILED, "error": "no answer"}, None, False),
        ({"status": Status.DIVERGED, "observed": 48.0}, 48.0, True),
        ({"status": Status.APPLIED, "requested": NO_LIMIT, "observed": NO_LIMIT}, None, True),
        ({"status": Status.RECORDED, "requested": None}, 8.0, True),
        ({"status": Status.HOLD, "old": None, "wanted": None, "requested": None}, 64.0, True),
    ],
)
async def test_a_change_that_was_never_read_back_leaves_the_value_unknown(
    history: History, changes: dict[str, object], value: float | None, known: bool
) -> None:
    run = await history.runs.start(AT, ENGINE, runtime())
    await history.decisions.add(run, [decision(1, **changes)])
    one = (await held(history, after(2)))[MAX_NUM_SEQS]
    assert (one.value, one.known) == (value, known)


async def test_a_daemon_that_began_anew_finds_the_boots_values_a_new_boot_does_not(history: History) -> None:
    first = await history.runs.start(AT, ENGINE, runtime())
    await history.decisions.add(first, [decision(10, status=Status.APPLIED, old=64, requested=32, observed=32)])
    await history.runs.start(after(20), ENGINE, runtime())
    assert (await held(history, after(30)))[MAX_NUM_SEQS].value == 32
    await history.runs.start(after(40), ENGINE, runtime(boot_id="boot-b"))
    assert (await held(history, after(50)))[MAX_NUM_SEQS].value == 64
    assert (await held(history, after(30)))[MAX_NUM_SEQS].value == 32


async def test_a_limit_that_the_engine_began_without_is_known_to_be_none(history: History) -> None:
    engine: EngineRuntime = with_knobs(runtime(), knob("max_num_queued_reqs", None, NO_LIMIT, 0, 1000))
    await history.runs.start(AT, ENGINE, engine)
    one = (await held(history, AT))["max_num_queued_reqs"]
    assert (one.value, one.known) == (None, True)


async def test_each_node_has_its_own_and_one_that_had_none_by_then_is_left_out(opened: Opened) -> None:
    one, other = await opened("gpu1"), await opened("gpu2")
    await one.runs.start(AT, ENGINE, runtime())
    run = await other.runs.start(after(10), ENGINE, runtime())
    await other.decisions.add(run, [decision(11, status=Status.APPLIED, old=64, requested=4, observed=4)])
    assert [moment.run.node for moment in await one.moments.at(after(5))] == ["gpu1"]
    both = await one.moments.at(after(20))
    assert [(moment.run.node, moment.values[0].value) for moment in both] == [("gpu1", 64), ("gpu2", 4)]
    assert (await held(one, after(20), "gpu2"))[MAX_NUM_SEQS].value == 4
    assert await one.moments.at(AT - timedelta(seconds=1)) == []
