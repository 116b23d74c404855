"""CPU time the plugin adds to one engine step: stock and plugin on one engine in turns, slice by slice.

Belongs here: the load, the slices, the clock. Never: what is on (`switch`), or the arithmetic (`interval`).

A closed loop keeps `running` requests running: in one load they decode all the time, in the other each has 256 tokens
of answer, so that at 256 running every step admits one and ends one. The device answers at once. A pair is one slice
with the plugin and one without on one engine; which comes first alternates. The difference of two whole steps (CPU
time of the thread) is as noisy as those are long; the time inside the plugin's code is not, so that is what is given as
added, and the other beside it. The memory of a request that ends is given back in the plugin's code rather than in
vLLM's, because the plugin is the last to know it: that is counted as added too, though it is not.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
import timeit
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from types import SimpleNamespace
from typing import Any

from bench.emulated_gpu.inprocess import EngineSettings, InProcessEngine
from bench.emulated_gpu.settings import EmulatedGpu
from bench.emulated_gpu.step_model import INSTANT
from bench.overhead import interval
from bench.overhead.switch import Switch

PROMPT_TOKENS = 128
TURNOVER_TOKENS = 256
SLICE_STEPS = 128
SETTLE_STEPS = 8
WARM_UP_STEPS = 260

_LEFT_OUT = 0.05
"""The share of calls, the longest ones, that count as interrupted. The plugin adds up its sums at one step in 64 and
that is among them: its price is taken by itself (`_sums_us`)."""

_METHODS = ("schedule", "update_from_output")
_CALLBACKS = ("on_block_allocated", "on_block_accessed", "on_block_evicted")


@dataclass(slots=True)
class StepCost:
    """Microseconds per step."""

    step_us: float
    """A whole step of stock vLLM, schedule() to tokens."""
    schedule_us: float
    """Its schedule() alone."""
    pairs_us: list[float]
    """Plugin minus stock of whole steps, per pair."""
    hooks_pairs_us: list[float]
    """Inside the plugin's two wrappers, without what vLLM does in them, per pair."""
    blocks_us: float
    """Inside the counter that vLLM calls for every block it allocates or touches."""

    @property
    def added_us(self) -> float:
        """What the plugin adds: the time inside its code."""
        return fmean(self.hooks_pairs_us) + self.blocks_us

    @property
    def share(self) -> float:
        """That, of vLLM's own schedule()."""
        return self.added_us / self.schedule_us

    def to_json(self) -> dict[str, object]:
        """Plain types only."""
        return {
            "added_us": round(self.added_us, 2),
            "hooks_us": interval.of(self.hooks_pairs_us).to_json(2),
            "blocks_us": round(self.blocks_us, 2),
            "whole_step_us": interval.of(self.pairs_us).to_json(2),
            "stock_step_us": round(self.step_us, 1),
            "schedule_us": round(self.schedule_us, 1),
        }


def measure(running: int, pairs: int, *, async_scheduling: bool, window: bool, turnover: bool) -> StepCost:
    """The cost at so many running requests: that decode all the time, or (`turnover`) that come and go."""
    steps = WARM_UP_STEPS + pairs * 2 * (SLICE_STEPS + SETTLE_STEPS) + 3 * SLICE_STEPS
    answer = TURNOVER_TOKENS if turnover else steps
    settings = EngineSettings(
        async_scheduling=async_scheduling,
        max_num_seqs=running,
        max_num_batched_tokens=8192,
        max_model_len=PROMPT_TOKENS + steps + 16,
        num_blocks=running * ((PROMPT_TOKENS + answer) // 16 + 8),
        gpu=EmulatedGpu(step=INSTANT),
    )
    with InProcessEngine(settings) as engine:
        clocks = _Clocks(engine.scheduler)
        loop = ClosedLoop(engine, running, answer, spread=turnover)
        loop.run(WARM_UP_STEPS)
        switch = Switch(engine, window=window)
        whole: dict[bool, list[float]] = {True: [], False: []}
        hooks: dict[bool, list[float]] = {True: [], False: []}
        schedule: list[float] = []
        for number in range(pairs):
            for plugin in (True, False) if number % 2 else (False, True):
                (switch.on if plugin else switch.off)()
                loop.run(SETTLE_STEPS)  # the CPU's caches get used to it
                with clocks:
                    whole[plugin].append(loop.run(SLICE_STEPS))
                hooks[plugin].append(clocks.between_us)
                if not plugin:
                    schedule.append(clocks.schedule_us)
        blocks_us, sums_us = _blocks_us(engine, loop, switch), _sums_us(engine)
    return StepCost(
        step_us=fmean(whole[False]),
        schedule_us=fmean(schedule),
        pairs_us=[on - off for on, off in zip(whole[True], whole[False], strict=True)],
        hooks_pairs_us=[on - off + sums_us for on, off in zip(hooks[True], hooks[False], strict=True)],
        blocks_us=blocks_us,
    )


class ClosedLoop:
    """Keeps an engine full. `spread`: the first answers are shorter, so that ends and arrivals come evenly."""

    def __init__(self, engine: InProcessEngine, running: int, answer_tokens: int, *, spread: bool) -> None:
        self._engine = engine
        self._running = running
        self._answer_tokens = answer_tokens
        self._names = (f"r{number}" for number in itertools.count())
        self._prompts = _prompts()
        for number in range(running):
            self._add(max(1, answer_tokens * (number + 1) // running) if spread else answer_tokens)

    def run(self, steps: int) -> float:
        """Runs so many steps; microseconds of CPU time per step, arrivals not counted."""
        engine, spent_ns = self._engine, 0
        for _ in range(steps):
            for _ in range(self._running - len(engine.scheduler.requests)):
                self._add(self._answer_tokens)
            began_ns = time.thread_time_ns()
            engine.step()
            spent_ns += time.thread_time_ns() - began_ns
        engine.finish_reasons.clear()
        return spent_ns / steps / 1e3

    def _add(self, answer_tokens: int) -> None:
        self._engine.add_request(next(self._names), next(self._prompts), answer_tokens)


class _Clocks:
    """Two clocks around schedule() and update_from_output(), one inside the plugin's wrappers and one outside.

    What lies between them is the plugin's own time and the clocks'; without the plugin it is the clocks' alone. The
    inner ones have to be there before the plugin, so they stay; the outer ones are there inside a ``with`` block.
    They read the machine's clock: the thread's CPU time is a system call, which costs more than what is measured and
    leaves the caches cold. When somebody else gets the CPU between the two, that stretch is left out (`_LEFT_OUT`).
    """

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._inside_ns = [0]
        self._schedule_ns: list[int] = []
        self._between_ns: dict[str, list[int]] = {name: [] for name in _METHODS}
        self._wrapped: dict[str, Any] = {}
        for name in _METHODS:
            setattr(scheduler, name, self._inner(getattr(scheduler, name)))

    def __enter__(self) -> None:
        self._schedule_ns.clear()
        for name in _METHODS:
            self._between_ns[name].clear()
            self._wrapped[name] = getattr(self._scheduler, name)
            setattr(self._scheduler, name, self._outer(name, self._wrapped[name]))

    def __exit__(self, *error: object) -> None:
        for name, wrapped in self._wrapped.items():
            setattr(self._scheduler, name, wrapped)

    @property
    def between_us(self) -> float:
        """Microseconds between the clocks per step of the last block, both methods together."""
        return sum(_undisturbed_us(taken_ns) for taken_ns in self._between_ns.values())

    @property
    def schedule_us(self) -> float:
        """Microseconds inside vLLM's schedule() per step of the last block."""
        return _undisturbed_us(self._schedule_ns)

    def _inner(self, method: Any) -> Any:
        clock, inside_ns = time.perf_counter_ns, self._inside_ns

        @functools.wraps(method)  # the plugin looks what the method takes
        def timed(*args: Any, **kwargs: Any) -> Any:
            began_ns = clock()
            result = method(*args, **kwargs)
            inside_ns[0] = clock() - began_ns
            return result

        return timed

    def _outer(self, name: str, method: Any) -> Any:
        clock, inside_ns, between_ns = time.perf_counter_ns, self._inside_ns, self._between_ns[name]
        all_inside_ns = self._schedule_ns if name == "schedule" else []

        def timed(*args: Any, **kwargs: Any) -> Any:
            began_ns = clock()
            result = method(*args, **kwargs)
            between_ns.append(clock() - began_ns - inside_ns[0])
            all_inside_ns.append(inside_ns[0])
            return result

        return timed


def _undisturbed_us(taken_ns: list[int]) -> float:
    return fmean(sorted(taken_ns)[: math.ceil(len(taken_ns) * (1 - _LEFT_OUT))]) / 1e3


def _sums_us(engine: InProcessEngine) -> float:
    """What adding up costs per step."""
    from vllm_governor_engine.hooks import ScheduleHook
    from vllm_governor_engine.stats.journal import FOLD_EVERY, Journal
    from vllm_governor_engine.stats.steps import Steps

    output = SimpleNamespace(
        total_num_scheduled_tokens=256,
        scheduled_cached_reqs=SimpleNamespace(num_computed_tokens=[1000], resumed_req_ids=()),
        scheduled_new_reqs=(),
        finished_req_ids=(),
    )
    hook = ScheduleHook(engine.scheduler, lambda name, error: None, time.perf_counter)
    taken_s = []
    for _ in range(50):
        journal = Journal(engine.scheduler, hook, time.perf_counter)
        steps = Steps(journal)
        journal.write(lambda: None, lambda error: None)  # it would add up before the clock runs
        ended = journal.around(lambda *_: None)
        for _ in range(FOLD_EVERY):
            journal.scheduled(output)
            ended(output, None)
        began_s = time.perf_counter()
        steps.fold()
        taken_s.append(time.perf_counter() - began_s)
    return min(taken_s) * 1e6 / FOLD_EVERY


def _blocks_us(engine: InProcessEngine, loop: ClosedLoop, switch: Switch) -> float:
    """The price of one call times the calls per step, for what the plugin puts in the place of a metrics collector."""
    switch.on()
    pool = engine.scheduler.kv_cache_manager.block_pool
    watch, block = pool.metrics_collector, pool.blocks[-1]
    switch.off()
    calls: Counter[str] = Counter()
    pool.metrics_collector = SimpleNamespace(
        **{name: lambda block, name=name: calls.update((name,)) for name in _CALLBACKS}, reset=lambda: None
    )
    loop.run(SLICE_STEPS)
    pool.metrics_collector = None
    empty_us = _price_us("pass", {})
    return sum(
        (_price_us(f"watch.{name}(block)", {"watch": watch, "block": block}) - empty_us) * calls[name] / SLICE_STEPS
        for name in _CALLBACKS
    )


def _price_us(statement: str, names: dict[str, Any]) -> float:
    repeats = 20_000
    return min(timeit.repeat(statement, globals=names, number=repeats, repeat=5)) / repeats * 1e6


def _prompts() -> Iterator[list[int]]:
    """Half of them begin alike, so that there are hits."""
    for number in itertools.count():
        own = [1 + (number * 31 + place * 7) % 400 for place in range(PROMPT_TOKENS)]
        yield [*range(1, PROMPT_TOKENS // 2), *own][:PROMPT_TOKENS] if number % 2 else own
