"""POST purge in a live engine core: blocks evicted, requests preempted, nobody hurt.

Here: the operation `purge` by its effect. Never here: which blocks go first (test_purge), or HTTP.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("vllm")

from vllm_governor_engine.errors import GovernorError

Drive = Callable[..., Any]
SYNC_AND_ASYNC = pytest.mark.parametrize("async_scheduling", [False, True], ids=["sync", "async"])


def _purge(driven: Any, ratio: float = 0.0, preempt: int = 0) -> dict[str, Any]:
    runtime: dict[str, Any] = driven.call("purge", expect={driven.governor.boot_id: None}, ratio=ratio, preempt=preempt)
    return runtime


def _finish(driven: Any) -> dict[str, Any]:
    """Calls, as the API process does, until the purge is done; its report."""
    for _ in range(1000):
        report: dict[str, Any] = driven.read()["purge"]["last"]
        if report["done"]:
            return report
    raise AssertionError("the purge does not end")


def _cached(driven: Any) -> int:
    pool = driven.scheduler.kv_cache_manager.block_pool
    return sum(block.ref_cnt == 0 and block.block_hash is not None for block in pool.blocks)


def _fill(driven: Any, requests: int, tokens: int = 160) -> None:
    for number in range(requests):
        driven.engine.add_request(f"fill{number}", [number % 500, number // 500] * (tokens // 2), 1)
    driven.engine.run_until_idle()


def _code(call: Callable[[], object]) -> str:
    with pytest.raises(GovernorError) as caught:
        call()
    return caught.value.code


def test_half_of_what_is_cached_goes_and_the_answer_says_how_much(drive: Drive, caplog: Any) -> None:
    driven = drive(num_blocks=2000)
    _fill(driven, 100)
    before = _cached(driven)
    assert before >= 900
    with caplog.at_level(logging.INFO, logger="vllm_governor_engine"):
        _purge(driven, 0.5)
        report = _finish(driven)
    assert report["blocks"] == before - _cached(driven) == -(-before // 2)
    assert report["bytes"] == report["blocks"] * driven.governor.engine.share(_tier()).block_bytes > 0
    assert 0 < report["longest_us"] <= report["microseconds"]
    lines = [record.getMessage() for record in caplog.records if "governor purge" in record.getMessage()]
    assert len(lines) == 1
    assert f"blocks={report['blocks']}" in lines[0]
    assert driven.governor.generation == 0  # no knob moved


def _tier() -> Any:
    from vllm_governor_engine.hot_tier import HotTier

    return HotTier


def test_an_idle_engine_finishes_a_large_purge_by_calls_in_pieces_of_at_most_two_milliseconds(drive: Drive) -> None:
    driven = drive(num_blocks=30_000, max_num_seqs=64, max_num_batched_tokens=8192)
    _fill(driven, 250, tokens=1600)
    before = _cached(driven)
    assert before > 20_000
    _purge(driven, 0.5)
    assert driven.governor.purging.under_way  # it is too large for one piece
    cpu_s, advance = [], driven.governor.purging.advance

    def timed() -> None:
        began = time.thread_time()  # the machine may be busy with others; the engine's thread is what counts
        advance()
        cpu_s.append(time.thread_time() - began)

    driven.governor.purging.advance = timed
    report = _finish(driven)
    assert report["pieces"] > 3
    assert report["blocks"] == -(-before // 2)
    assert sorted(cpu_s)[len(cpu_s) * 9 // 10] < 0.002
    assert driven.governor.engine.hook.parts == ()


@SYNC_AND_ASYNC
def test_a_working_engine_drives_a_purge_by_its_steps_and_answers_right(drive: Drive, async_scheduling: bool) -> None:
    driven = drive(num_blocks=30_000, max_num_batched_tokens=8192, async_scheduling=async_scheduling)
    _fill(driven, 250, tokens=1600)
    driven.add(20, prompt_tokens=100, max_tokens=200)
    driven.engine.step()
    _purge(driven, 1.0)
    answers = driven.engine.run_until_idle()
    assert not driven.governor.purging.under_way
    assert driven.governor.engine.hook.parts == ()
    for number in range(20):
        name = f"r{number}"
        assert answers.get(name, [])[-100:] == driven.engine.expected(name, 200)[-100:]


def test_one_purge_at_a_time(drive: Drive) -> None:
    driven = drive(num_blocks=30_000, max_num_batched_tokens=8192)
    _fill(driven, 250, tokens=1600)
    _purge(driven, 0.5)
    under_way = driven.governor.purging.under_way
    assert under_way
    driven.governor.purging.advance, advance = (lambda: None), driven.governor.purging.advance
    assert _code(lambda: _purge(driven, 0.5)) == "conflict"
    driven.governor.purging.advance = advance
    _finish(driven)
    _purge(driven, 0.1)


def test_without_prefix_caching_there_is_nothing_to_purge_but_requests_can_be_preempted(drive: Drive) -> None:
    driven = drive(prefix_caching=False)
    assert _code(lambda: _purge(driven, 0.5)) == "unsupported"
    assert driven.read()["purge"]["support"] == "off"
    driven.add(8, max_tokens=30)
    driven.engine.step()
    driven.lease()
    assert _purge(driven, preempt=3)["running"] == 5
    answers = driven.engine.run_until_idle()
    assert len(driven.engine.finish_reasons) == 8
    assert answers["r7"] == driven.engine.expected("r7", 30)[-len(answers["r7"]) :]


@SYNC_AND_ASYNC
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_preempting_frees_memory_holds_the_cap_and_loses_no_token(
    drive: Drive, async_scheduling: bool, policy: str
) -> None:
    driven = drive(async_scheduling=async_scheduling, max_num_seqs=32, scheduling_policy=policy)
    got: dict[str, list[int]] = {}

    def step() -> None:
        for name, tokens in driven.engine.step().items():
            got.setdefault(name, []).extend(tokens)

    for number in range(20):
        driven.engine.add_request(f"r{number}", [number] * 64, 60, priority=number)
    for _ in range(12):
        step()
    pool = driven.scheduler.kv_cache_manager.block_pool
    free, victims = pool.get_num_free_blocks(), [request.request_id for request in driven.scheduler.running[-8:]]
    driven.lease()
    runtime = _purge(driven, ratio=1.0, preempt=8)
    assert (runtime["running"], runtime["waiting"]) == (12, 8)
    assert runtime["knobs"]["max_num_seqs"]["value"] == 12
    assert runtime["purge"]["last"]["preempted"] == 8
    assert runtime["generation"] == 1
    assert pool.get_num_free_blocks() >= free + 8 * 4  # 64 tokens each at least, 16 a block
    assert [request.request_id for request in driven.scheduler.waiting] == victims
    for _ in range(20):
        step()
        assert len(driven.scheduler.running) <= 12
    driven.patch(max_num_seqs=32)
    while driven.engine.busy:
        step()
    assert got == {f"r{number}": driven.engine.expected(f"r{number}", 60) for number in range(20)}


@SYNC_AND_ASYNC
def test_a_preempted_request_that_is_resumed_in_the_very_next_step_goes_on_right(
    drive: Drive, async_scheduling: bool
) -> None:
    driven = drive(async_scheduling=async_scheduling)
    got: dict[str, list[int]] = {}
    driven.add(6, max_tokens=80)
    driven.lease()
    turn = 0
    while driven.engine.busy:
        turn += 1
        if turn % 5 == 0 and len(driven.scheduler.running) > 1:
            _purge(driven, preempt=2)
            driven.patch(max_num_seqs=64)
        for name, tokens in driven.engine.step().items():
            got.setdefault(name, []).extend(tokens)
    assert got == {f"r{number}": driven.engine.expected(f"r{number}", 80) for number in range(6)}


def test_one_request_at_least_goes_on_and_an_idle_engine_has_none_to_preempt(drive: Drive) -> None:
    driven = drive()
    driven.lease()
    assert _purge(driven, preempt=5)["knobs"]["max_num_seqs"]["value"] == 64
    driven.add(3, max_tokens=30)
    driven.engine.step()
    runtime = _purge(driven, preempt=99)
    assert (runtime["running"], runtime["knobs"]["max_num_seqs"]["value"]) == (1, 1)
    driven.engine.run_until_idle()
    assert len(driven.engine.finish_reasons) == 3


def test_a_cap_that_is_lower_already_stays(drive: Drive) -> None:
    driven = drive()
    driven.add(10, max_tokens=30)
    driven.engine.step()
    driven.patch(max_num_seqs=2)
    assert _purge(driven, preempt=3)["knobs"]["max_num_seqs"]["value"] == 2


def test_to_preempt_takes_a_lease_so_that_the_cap_comes_back(drive: Drive) -> None:
    driven = drive()
    driven.add(10, max_tokens=30)
    driven.engine.step()
    assert _code(lambda: _purge(driven, preempt=3)) == "conflict"
    assert len(driven.scheduler.running) == 10
    driven.lease(lease_s=5)
    _purge(driven, preempt=3)
    driven.clock.now += 6
    assert driven.read()["knobs"]["max_num_seqs"]["value"] == 64


def test_a_stale_or_frozen_purge_changes_nothing(drive: Drive) -> None:
    driven = drive()
    _fill(driven, 10)
    before = _cached(driven)
    assert _code(lambda: driven.call("purge", expect={"other": None}, ratio=1, preempt=0)) == "stale"
    driven.governor.set_frozen(True)
    assert _code(lambda: _purge(driven, 1.0)) == "frozen"
    assert _cached(driven) == before


def test_where_stale_output_is_not_told_apart_batches_in_flight_forbid_it(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm_governor_engine import probe

    real = probe.reads
    monkeypatch.setattr(
        probe, "reads", lambda owner, method, name: name != "num_stale_output_tokens" and real(owner, method, name)
    )
    levels = [drive(async_scheduling=on).read()["purge"]["preempt"]["support"] for on in (False, True)]
    assert levels == ["native", "off"]


def test_a_scheduler_that_fails_to_preempt_loses_no_request_and_is_not_asked_again(drive: Drive) -> None:
    driven = drive()
    driven.add(6, max_tokens=30)
    driven.engine.step()
    driven.lease()

    def broken(request: Any, timestamp: float, drop_stale_output: bool = False) -> None:
        raise RuntimeError("not today")

    driven.scheduler._preempt_request = broken
    assert _code(lambda: _purge(driven, preempt=2)) == "engine_unavailable"
    assert len(driven.scheduler.running) == 6
    assert driven.read()["purge"]["preempt"]["support"] == "off"
    assert _code(lambda: _purge(driven, preempt=2)) == "unsupported"
    del driven.scheduler._preempt_request
    assert len(driven.engine.run_until_idle()) == 6


def test_a_purge_that_fails_is_given_up_and_serving_goes_on(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    driven = drive(num_blocks=30_000, max_num_batched_tokens=8192)
    _fill(driven, 250, tokens=1600)
    _purge(driven, 1.0)
    assert driven.governor.purging.under_way

    def broken(clock: object) -> bool:
        raise RuntimeError("no purge today")

    monkeypatch.setattr(driven.governor.purging._purge, "piece", broken)
    driven.add(4)
    assert len(driven.engine.run_until_idle()) == 4
    runtime = driven.read()
    assert runtime["purge"]["support"] == "off"
    assert "no purge today" in runtime["purge"]["last"]["failed"]
    assert [entry["part"] for entry in runtime["degraded"]] == ["purge"]
    assert driven.governor.engine.hook.parts == ()


def test_a_freeze_ends_a_purge_under_way_and_another_may_follow(drive: Drive) -> None:
    driven = drive(num_blocks=30_000)
    _fill(driven, 2_800)
    driven.lease()
    driven.engine.add_request("runs", [7] * 64, 200)
    driven.engine.step()
    _purge(driven, 1.0)
    assert driven.governor.purging.under_way
    driven.governor.set_frozen(True)
    assert not driven.governor.purging.under_way
    left = _cached(driven)
    assert left > 0
    driven.engine.step()
    assert _cached(driven) >= left
    assert driven.read()["purge"]["last"]["failed"] == "frozen by an operator"
    driven.governor.set_frozen(False)
    driven.engine.run_until_idle()
    _purge(driven, 1.0)
    assert _finish(driven)["done"]


def test_calls_do_not_lengthen_the_purge_of_a_working_engine(drive: Drive) -> None:
    driven = drive(num_blocks=30_000)
    _fill(driven, 2_800)
    driven.engine.add_request("runs", [7] * 64, 200)
    driven.engine.step()
    pieces = _purge(driven, 1.0)["purge"]["last"]["pieces"]
    for _ in range(5):
        driven.read()
    assert driven.read()["purge"]["last"]["pieces"] == pieces
    driven.engine.step()
    assert driven.read()["purge"]["last"]["pieces"] == pieces + 1
