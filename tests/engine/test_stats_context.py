"""The context that the statistics tell from the step before is the one that a sum over all requests finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm")

from vllm_governor_engine.stats.journal import IN_FLIGHT, SAMPLE_EVERY, Journal

Drive = Callable[..., Any]
SYNC_AND_ASYNC = pytest.mark.parametrize("async_scheduling", [False, True], ids=["sync", "async"])


def _summed(outputs: list[Any]) -> list[tuple[int, int]]:
    """Tokens and context of each step that had any, request by request."""
    found = []
    for output in outputs:
        new = [one.num_computed_tokens for one in output.scheduled_new_reqs]
        if output.total_num_scheduled_tokens:
            context = sum([*output.scheduled_cached_reqs.num_computed_tokens, *new])
            found.append((output.total_num_scheduled_tokens, context))
    return found


def _watch(driven: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Begins the collection; an entry, its tokens, for each step from now on whose context is summed."""
    summed: list[int] = []
    look = Journal._look

    def looking(self: Any, output: Any, computed: list[int], tokens: int) -> None:
        summed.extend([tokens] if tokens else [])
        look(self, output, computed, tokens)

    monkeypatch.setattr(Journal, "_look", looking)
    driven.call("stats", since={"*": 0})
    return summed


def _random_run(driven: Any, source: random.Random, steps: int) -> None:
    """Requests of all lengths come, end, hit the cache, are aborted and preempted, while knobs change."""
    engine, number = driven.engine, 0
    shared = list(range(1, 120))
    for step in range(steps):
        for _ in range(source.choice((0, 0, 0, 0, 0, 0, 1, 4)) if step % 120 < 60 else 0):
            length = source.choice((5, 40, 119, 300, 700))
            prompt = [*shared, *range(200, 200 + length)] if source.random() < 0.5 else range(number, number + length)
            engine.add_request(f"r{number}", [1 + token % 400 for token in prompt], source.choice((1, 7, 60, 150)))
            number += 1
        alive = list(driven.scheduler.requests)
        if alive and source.random() < 0.02:
            engine.abort(*source.sample(alive, min(2, len(alive))))
        if source.random() < 0.01:
            engine.core.reset_prefix_cache(reset_running_requests=True)
        if source.random() < 0.02:
            driven.patch(max_num_batched_tokens=source.choice((48, 128, 512)))
        if source.random() < 0.02:
            driven.patch(max_num_seqs=source.choice((4, 12, 24)))
        if engine.busy:
            engine.step()
    engine.run_until_idle()


@SYNC_AND_ASYNC
@pytest.mark.parametrize("seed", range(4))
def test_the_context_is_that_of_a_sum_over_all_requests_whatever_happens(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, async_scheduling: bool, seed: int
) -> None:
    settings = {"max_num_seqs": 24, "max_num_batched_tokens": 512, "max_model_len": 1024, "num_blocks": 220}
    driven = drive(async_scheduling=async_scheduling, **settings)
    looked = _watch(driven, monkeypatch)
    seen: list[tuple[int, int]] = []

    class Lines(list[Any]):
        def append(self, line: Any) -> None:
            seen.append(line[1:3])
            super().append(line)

    driven.governor.stats._journal._begun = Lines()
    outputs = driven.watch_steps()
    _random_run(driven, random.Random(seed), 600)
    expected = _summed(outputs)
    assert seen == expected
    sums = driven.call("stats", since={"*": 0})["steps"]
    assert (sums["n"], sums["tokens"]) == (len(expected), sum(tokens for tokens, _ in expected))
    assert sums["context"] == sum(context for _, context in expected)
    assert sums["context_context"] == sum(context * context for _, context in expected)
    assert sums["tokens_context"] == sum(tokens * context for tokens, context in expected)
    assert driven.governor.stats._journal._trusted
    assert len(looked) < len(expected)  # some were told without a sum
    assert driven.call("stats", since={"*": 0})["requests"]["preemptions"] > 0


@SYNC_AND_ASYNC
def test_while_the_same_requests_decode_the_context_is_summed_at_every_eighth_step_only(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, async_scheduling: bool
) -> None:
    driven = drive(async_scheduling=async_scheduling, max_num_seqs=100)
    driven.add(100, max_tokens=200)
    for _ in range(8):
        driven.engine.step()
    looked = _watch(driven, monkeypatch)
    for _ in range(160):
        driven.engine.step()
    assert driven.call("stats", since={"*": 0})["steps"]["samples"] == 20
    assert len(looked) == 20


class _Batches:
    """A scheduler whose batches a test makes up, and the context that its statistics find in each."""

    def __init__(self, **attributes: Any) -> None:
        self.scheduler = SimpleNamespace(
            running=list(range(100)), waiting=[], max_num_scheduled_tokens=512,
            **{"connector": None, "num_spec_tokens": 0, **attributes},
        )  # fmt: skip
        self.journal = Journal(self.scheduler, SimpleNamespace(began=0.0), lambda: 0.0)  # type: ignore[arg-type]
        self.failed: list[Exception] = []
        self.journal.write(lambda: None, self.failed.append)

    def step(self, computed: list[int], tokens: int = 100, resumed: tuple[str, ...] = ()) -> int:
        self.schedule(computed, tokens, resumed)
        return int(self.journal._begun[-1][2])

    def schedule(self, computed: list[int], tokens: int = 100, resumed: tuple[str, ...] = ()) -> Any:
        cached = SimpleNamespace(num_computed_tokens=computed, resumed_req_ids=set(resumed))
        output = SimpleNamespace(
            total_num_scheduled_tokens=tokens, scheduled_cached_reqs=cached, scheduled_new_reqs=[], finished_req_ids=()
        )
        self.journal.scheduled(output)
        assert not self.failed
        return output


def test_where_vllm_may_take_tokens_back_the_context_is_always_summed() -> None:
    for attributes in ({"num_spec_tokens": 2}, {"connector": object()}, {"num_spec_tokens": None}):
        batches = _Batches(**attributes)
        for step in range(30):
            computed = [50 + step, *(20 + step - step % 3 for _ in range(99))]
            assert batches.step(computed) == sum(computed)


def test_one_sum_that_differs_ends_the_telling_for_good() -> None:
    batches = _Batches()
    found = []
    for step in range(40):
        computed = [50 + step, *(20 + step // 2 for _ in range(99))]  # the others go forward more slowly
        found.append(batches.step(computed) == sum(computed))
    assert not all(found[:8])
    assert all(found[8:])


def test_a_step_that_was_not_seen_or_a_request_that_came_back_makes_a_sum_due() -> None:
    batches = _Batches()
    for first in (50, 51, 52, 60, 61, 62):
        computed = [first + number for number in range(100)]
        assert batches.step(computed) == sum(computed)
    computed = [63, *range(200, 299)]
    assert batches.step(computed, resumed=("r7",)) == sum(computed)
    assert batches.journal._trusted


def test_a_batch_that_never_ends_is_in_no_sum_and_those_after_it_keep_their_own_ends() -> None:
    batches = _Batches()
    outputs = [batches.schedule([50 + step] * 100) for step in range(4)]
    ended = batches.journal.around(lambda *_: None)
    for output in (object(), outputs[0], outputs[2], outputs[1], outputs[3]):  # a stranger, one that was passed over
        ended(output, None)
    assert [line[2] for line, _ in batches.journal.take()] == [5000, 5200, 5300]
    assert not batches.journal._in_flight


def test_however_many_batches_never_end_only_some_are_remembered() -> None:
    batches = _Batches()
    for step in range(1000):
        batches.schedule([50 + step] * 100)
    assert len(batches.journal._in_flight) == len(batches.journal._begun) <= IN_FLIGHT + SAMPLE_EVERY
