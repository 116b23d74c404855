"""Laws of the emulated GPU: whose token comes out when, and how long the device takes.

Belongs here: the device under a real scheduler, in this process. Never: a server, a real sleep.
"""

from __future__ import annotations

import random
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm")

from bench.emulated_gpu.clock import VirtualClock
from bench.emulated_gpu.executor import DeviceFuture
from bench.emulated_gpu.inprocess import EngineSettings, InProcessEngine
from bench.emulated_gpu.ledger import Ledger, LedgerError
from bench.emulated_gpu.settings import EmulatedGpu, load
from bench.emulated_gpu.step_model import INSTANT, StepModel
from bench.emulated_gpu.tokens import TokenRule, seed_of
from bench.tiny_model import VOCAB_SIZE

SYNC_AND_ASYNC = pytest.mark.parametrize("async_scheduling", [False, True], ids=["sync", "async"])
SMALL_POOL: dict[str, Any] = {"num_blocks": 40, "max_num_batched_tokens": 96, "max_model_len": 256, "max_num_seqs": 24}
"""Blocks for a few requests at a time, so that they are preempted, and a budget that cuts prompts into chunks."""


def _ask(engine: InProcessEngine, count: int, seed: int = 1) -> dict[str, int]:
    """Adds ``count`` requests of mixed sizes, many sharing a beginning; returns how many tokens each asked for."""
    source = random.Random(seed)
    shared = [source.randrange(VOCAB_SIZE) for _ in range(64)]
    asked: dict[str, int] = {}
    for number in range(count):
        beginning = shared[: source.choice((0, 16, 32, 64))]
        prompt = beginning + [source.randrange(VOCAB_SIZE) for _ in range(source.randint(1, 80))]
        asked[f"r{number}"] = source.randint(1, 40)
        engine.add_request(f"r{number}", prompt, asked[f"r{number}"])
    return asked


def _assert_own_tokens(engine: InProcessEngine, got: dict[str, list[int]], asked: dict[str, int]) -> None:
    assert got == {request_id: engine.expected(request_id, length) for request_id, length in asked.items()}


def _preemptions(requests: dict[str, Any]) -> int:
    return sum(request.num_preemptions for request in requests.values())


@SYNC_AND_ASYNC
def test_each_of_thousands_of_requests_gets_exactly_its_own_tokens_in_order_and_once(async_scheduling: bool) -> None:
    with InProcessEngine(EngineSettings(async_scheduling=async_scheduling, max_num_seqs=128)) as engine:
        assert type(engine.scheduler).__name__ == ("AsyncScheduler" if async_scheduling else "Scheduler")
        asked = _ask(engine, 3000)
        _assert_own_tokens(engine, engine.run_until_idle(), asked)
        assert set(engine.finish_reasons.values()) == {"length"}
        assert engine.finish_reasons.keys() == asked.keys()


@SYNC_AND_ASYNC
@pytest.mark.parametrize("second_runner", [False, True], ids=["runner1", "runner2"])
@pytest.mark.parametrize("prefix_caching", [False, True], ids=["uncached", "cached"])
def test_preempted_requests_go_on_where_they_were(
    async_scheduling: bool, second_runner: bool, prefix_caching: bool
) -> None:
    settings = EngineSettings(async_scheduling=async_scheduling, prefix_caching=prefix_caching, **SMALL_POOL)
    with InProcessEngine(settings) as engine:
        engine.scheduler.use_v2_model_runner = second_runner  # how a resumed request is handed over differs
        asked = _ask(engine, 400)
        requests = dict(engine.scheduler.requests)
        _assert_own_tokens(engine, engine.run_until_idle(), asked)
        assert _preemptions(requests) > 20


@SYNC_AND_ASYNC
def test_a_prefix_cache_reset_that_preempts_everything_loses_and_repeats_nothing(async_scheduling: bool) -> None:
    with InProcessEngine(EngineSettings(async_scheduling=async_scheduling)) as engine:
        asked = _ask(engine, 200)
        requests = dict(engine.scheduler.requests)
        got: dict[str, list[int]] = defaultdict(list)
        turns = 0
        while engine.busy:
            turns += 1
            if turns % 7 == 0:
                assert engine.core.reset_prefix_cache(reset_running_requests=True)
            for request_id, tokens in engine.step().items():
                got[request_id].extend(tokens)
        _assert_own_tokens(engine, dict(got), asked)
        assert _preemptions(requests) > 100


@SYNC_AND_ASYNC
def test_a_prompt_read_in_chunks_answers_only_when_it_is_complete(async_scheduling: bool) -> None:
    settings = EngineSettings(async_scheduling=async_scheduling, max_num_batched_tokens=50, max_num_seqs=8)
    with InProcessEngine(settings) as engine:
        engine.add_request("long", range(220), 3)
        steps_before: list[int] = []
        while engine.busy:
            if "long" in engine.step():
                steps_before.append(engine.executor.steps)
        # Five chunks of at most 50 tokens, then one token a step; with two batches in flight the next has begun.
        ahead = 1 if async_scheduling else 0
        assert steps_before == [5 + ahead, 6 + ahead, 7]


@SYNC_AND_ASYNC
def test_without_chunks_a_prompt_is_computed_in_one_step(async_scheduling: bool) -> None:
    settings = EngineSettings(
        async_scheduling=async_scheduling, chunked_prefill=False, max_num_batched_tokens=256, max_model_len=256
    )
    with InProcessEngine(settings) as engine:
        asked = _ask(engine, 300)
        _assert_own_tokens(engine, engine.run_until_idle(), asked)


@SYNC_AND_ASYNC
def test_an_aborted_request_has_a_beginning_of_its_answer_and_the_others_have_theirs_whole(
    async_scheduling: bool,
) -> None:
    source = random.Random(3)
    with InProcessEngine(EngineSettings(async_scheduling=async_scheduling, **SMALL_POOL)) as engine:
        asked = _ask(engine, 400)
        doomed = set(source.sample(sorted(asked), 120))
        alive, got = set(doomed), defaultdict[str, list[int]](list)
        while engine.busy:
            if alive and source.random() < 0.5:
                gone = source.choice(sorted(alive))
                alive.remove(gone)
                engine.abort(gone)
            for request_id, tokens in engine.step().items():
                got[request_id].extend(tokens)
        for request_id, length in asked.items():
            if request_id in doomed:
                assert got[request_id] == engine.expected(request_id, len(got[request_id]))
            else:
                assert got[request_id] == engine.expected(request_id, length)
        assert sum(len(got[request_id]) < asked[request_id] for request_id in doomed) > 20
        assert len(engine.scheduler.requests) == 0


@SYNC_AND_ASYNC
def test_an_id_can_be_used_again_when_an_aborted_request_has_left_the_device(async_scheduling: bool) -> None:
    with InProcessEngine(EngineSettings(async_scheduling=async_scheduling)) as engine:
        engine.add_request("same", range(10), 50)
        for _ in range(8):
            engine.step()
        engine.abort("same")
        engine.run_until_idle()
        engine.add_request("same", range(33), 4)
        assert engine.run_until_idle() == {"same": engine.expected("same", 4)}


@SYNC_AND_ASYNC
def test_no_step_exceeds_the_cap_or_the_budget_of_the_moment(async_scheduling: bool) -> None:
    source = random.Random(5)
    settings = EngineSettings(async_scheduling=async_scheduling, max_num_batched_tokens=512, max_num_seqs=32)
    with InProcessEngine(settings) as engine:
        asked, got = _ask(engine, 500), defaultdict[str, list[int]](list)
        while engine.busy:
            budget = engine.scheduler.max_num_scheduled_tokens = source.randint(40, 512)
            steps_before = engine.executor.steps
            for request_id, tokens in engine.step().items():
                got[request_id].extend(tokens)
            if engine.executor.steps > steps_before:
                assert 0 < engine.executor.last_step.tokens <= budget
                assert len(engine.executor.last_step.request_ids) <= 32
        _assert_own_tokens(engine, dict(got), asked)


def test_virtual_time_is_the_sum_of_the_steps_when_one_runs_after_the_other() -> None:
    model = StepModel(base_ms=10.0, per_token_us=100.0, per_context_token_ns=1000.0)
    with InProcessEngine(EngineSettings(gpu=EmulatedGpu(step=model))) as engine:
        engine.add_request("a", range(100), 3)
        engine.run_until_idle()
        steps = [model.step_s(100, 0), model.step_s(1, 100), model.step_s(1, 101)]
        assert engine.clock.now_s() == pytest.approx(sum(steps))
        assert engine.executor.busy_s == pytest.approx(sum(steps))


@SYNC_AND_ASYNC
def test_a_long_answer_costs_as_many_steps_as_tokens_and_the_device_is_never_idle(async_scheduling: bool) -> None:
    with InProcessEngine(EngineSettings(async_scheduling=async_scheduling)) as engine:
        engine.add_request("a", range(100), 50)
        engine.run_until_idle()
        assert engine.executor.steps == 50
        assert engine.clock.now_s() == pytest.approx(engine.executor.busy_s)


def test_with_two_batches_in_flight_the_second_starts_when_the_first_ends() -> None:
    gpu = EmulatedGpu(step=StepModel(base_ms=10.0, per_token_us=0.0, per_context_token_ns=0.0))
    with InProcessEngine(EngineSettings(async_scheduling=True, gpu=gpu)) as engine:
        engine.add_request("a", range(10), 5)
        assert engine.step() == {}
        assert engine.clock.now_s() == 0.0
        assert engine.step() == {"a": engine.expected("a", 1)}
        assert engine.clock.now_s() == pytest.approx(0.010)
        assert len(engine.core.batch_queue) == 1
        engine.step()
        assert engine.clock.now_s() == pytest.approx(0.020)


def test_time_passes_between_arrivals_only_when_the_clock_is_advanced() -> None:
    clock = VirtualClock()
    with InProcessEngine(EngineSettings(gpu=EmulatedGpu(step=INSTANT)), clock=clock) as engine:
        engine.add_request("a", range(10), 5)
        engine.run_until_idle()
        assert clock.now_s() == 0.0
        clock.advance(2.5)
        assert engine.step() == {}
        assert clock.now_s() == 2.5


def test_a_step_without_tokens_is_answered_at_once_with_nothing() -> None:
    with InProcessEngine() as engine:
        engine.add_request("a", range(10), 5)
        engine.step()
        engine.abort("a")
        before_s = engine.clock.now_s()
        assert engine.run_until_idle() == {}
        assert (engine.clock.now_s(), len(engine.executor._ledger)) == (before_s, 0)


def test_a_request_that_can_never_run_is_reported_instead_of_stepped_for_ever() -> None:
    with InProcessEngine() as engine:
        engine.scheduler.max_num_scheduled_tokens = 0
        engine.add_request("a", range(10), 5)
        with pytest.raises(RuntimeError, match="cannot get idle"):
            engine.run_until_idle(max_steps=20)
        engine.abort("a")


def test_a_result_is_done_when_the_device_clock_says_so_and_waiting_passes_the_time() -> None:
    clock = VirtualClock()
    future = DeviceFuture("value", 1.5, clock)
    assert not future.done()
    assert future.result() == "value"
    assert clock.now_s() == 1.5
    assert future.done()


def test_the_ledger_refuses_a_step_in_which_the_scheduler_has_lost_a_token() -> None:
    ledger = Ledger(TokenRule())
    new = SimpleNamespace(req_id="a", prompt_token_ids=[1, 2, 3], prefill_token_ids=None, num_computed_tokens=0)
    nothing = SimpleNamespace(req_ids=[], resumed_req_ids=set(), num_output_tokens=[], num_computed_tokens=[])
    ledger.run(_scheduled([new], nothing, {"a": 3}))
    cached = SimpleNamespace(req_ids=["a"], resumed_req_ids=set(), num_output_tokens=[0], num_computed_tokens=[3])
    with pytest.raises(LedgerError, match="has 0 tokens by the scheduler and 1 by the device"):
        ledger.run(_scheduled([], cached, {"a": 1}))


def _scheduled(new: list[Any], cached: Any, tokens: dict[str, int]) -> Any:
    return SimpleNamespace(
        finished_req_ids=set(),
        scheduled_new_reqs=new,
        scheduled_cached_reqs=cached,
        num_scheduled_tokens=tokens,
        total_num_scheduled_tokens=sum(tokens.values()),
    )


def test_a_step_costs_a_base_and_a_share_per_token_and_per_context_token() -> None:
    assert StepModel().step_s(tokens=1000, context_tokens=100_000) == pytest.approx(0.018 + 0.090 + 0.006)
    assert StepModel().step_s(tokens=0, context_tokens=0) == 0.0
    assert INSTANT.step_s(1000, 100_000) == 0.0


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "18", True, None])
def test_a_step_model_takes_no_value_that_is_not_a_duration(value: Any) -> None:
    with pytest.raises(ValueError, match="cannot use base_ms"):
        StepModel(base_ms=value)


def test_answers_differ_between_requests_and_positions_and_stay_in_their_range() -> None:
    rule = TokenRule(first_id=10, count=7)
    answers = {tuple(TokenRule().answer(f"r{number}", 32)) for number in range(5000)}
    assert len(answers) == 5000
    assert {rule.token(seed_of("r"), position) for position in range(1000)} == set(range(10, 17))
    assert rule.answer("r", 8) == rule.answer("r", 9)[:8]


def test_settings_come_from_the_engine_config_first_then_from_the_environment_then_from_the_defaults() -> None:
    environment = {"EMULATED_GPU": '{"step": {"base_ms": 5}, "kv_cache_mib": 64}'}
    assert load({"emulated_gpu": {"step": {"base_ms": 7}}}, environment).step.base_ms == 7
    assert load({"other": 1}, environment) == EmulatedGpu(step=StepModel(base_ms=5), kv_cache_mib=64)
    assert load({}, {}) == EmulatedGpu()
    assert EmulatedGpu.from_mapping(EmulatedGpu().to_dict()) == EmulatedGpu()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ('{"stepp": {}}', "emulated_gpu.stepp: unknown key"),
        ('{"step": {"base_s": 1}}', "emulated_gpu.step.base_s: unknown key"),
        ('{"step": 3}', "emulated_gpu.step=3: it must be an object"),
        ('{"kv_cache_mib": 0}', "kv_cache_mib=0"),
        ("18 ms", "EMULATED_GPU: it is not JSON"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(given: str, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        load(None, {"EMULATED_GPU": given})


def test_virtual_time_never_goes_back() -> None:
    clock = VirtualClock(10.0)
    clock.sleep_until(5.0)
    assert clock.now_s() == 10.0
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1.0)
