"""Nothing lost, nothing changed: thousands of requests run while every knob changes at random.

Here: the one law that each request gets exactly its own tokens, in order, once, whatever the governor is told to do
meanwhile. Never here: what a knob is good for.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("vllm")

from vllm_governor_engine.errors import GovernorError

from bench.emulated_gpu.settings import EmulatedGpu
from bench.emulated_gpu.step_model import StepModel

Drive = Callable[..., Any]

REQUESTS = 20_000
LOADS = (4, 20, 40, 120)
"""Requests in the system: few, so that arrivals find room and windows hold them, up to far too many."""
SETTINGS: dict[str, Any] = {
    "num_blocks": 260,
    "max_num_seqs": 48,
    "max_num_batched_tokens": 512,
    "max_model_len": 256,
    "gpu": EmulatedGpu(step=StepModel(base_ms=2, per_token_us=2, per_context_token_ns=0)),
}
"""A pool too small for a full batch, so that vLLM preempts by itself as well; steps short enough for windows."""


class _Storm:
    """Requests come and go, and clients give up, while knobs change. Checks each request as it ends."""

    def __init__(self, driven: Any, requests: int, seed: int) -> None:
        self.source = random.Random(seed)
        self.driven = driven
        self.left = requests
        self.asked: dict[str, int] = {}
        self.got: dict[str, list[int]] = {}
        self.kinds: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.finished = self.aborted = self.preempted = 0
        self.shared = [self.source.randrange(500) for _ in range(96)]

    def run(self) -> None:
        """Everything, to the end."""
        engine, number, load = self.driven.engine, 0, LOADS[-1]
        while self.left or engine.busy:
            if self.source.random() < 0.02:
                load = self.source.choice(LOADS)
            while self.left and len(self.asked) < load and self.source.random() < 0.8:
                self._add(f"q{number}")
                number += 1
            if self.source.random() < 0.2:
                self._disturb()
            if self.source.random() < 0.02 and self.asked:
                self._abort()
            if self.source.random() < 0.002:
                engine.clock.advance(5)  # longer than some leases
            self._step()

    def _add(self, name: str) -> None:
        source = self.source
        prompt = self.shared[: source.choice((0, 16, 48, 96))]
        prompt = prompt + [source.randrange(500) for _ in range(source.randint(1, 60))]
        self.asked[name] = source.randint(1, 24)
        self.driven.engine.add_request(name, prompt, self.asked[name])
        self.left -= 1

    def _step(self) -> None:
        engine = self.driven.engine
        for name, tokens in engine.step().items():
            self.got.setdefault(name, []).extend(tokens)
        for name in list(engine.finish_reasons):
            assert engine.finish_reasons.pop(name) == "length"
            assert self.got.pop(name) == engine.expected(name, self.asked.pop(name)), name
            self.finished += 1

    def _abort(self) -> None:
        for name in self.source.sample(sorted(self.asked), min(3, len(self.asked))):
            self.driven.engine.abort(name)
            got = self.got.pop(name, [])
            assert got == self.driven.engine.expected(name, len(got)), name
            assert len(got) <= self.asked.pop(name)
            self.aborted += 1

    def _disturb(self) -> None:
        frozen = self.driven.governor.frozen
        kinds = [self._patch] * 6 + [self._purge] * 2 + [self._lease] * 2 + [self._stats]
        kinds += [self._freeze] * (5 if frozen else 1)
        kind = self.source.choice(kinds)
        self.kinds[kind.__name__] += 1
        try:
            kind()
        except GovernorError as error:
            self.refused[error.code] += 1

    def _patch(self) -> None:
        source = self.source
        knobs: dict[str, Any] = {
            "max_num_seqs": source.choice((1, 3, 8, 24, 48)),
            "max_num_batched_tokens": source.choice((48, 64, 200, 512)),
            "long_prefill_token_threshold": source.choice((0, 1, 16, 50)),
            "watermark_blocks": source.choice((0, 10, 60, 130)),
            "admission_delay_ms": source.choice((0, 5, 20, 100)),
            "length_grouping": source.random() < 0.5,
            "hot_cache_ratio": source.choice((0, 0.2, 0.4, 0.9)),
            "hot_cache_min_size_mb": source.choice((0, 0.5)),
            "hot_ttl_s": source.choice((1, 900)),
            "cold_ttl_s": source.choice((1, 120)),
            "cold_cache_reclaim_threshold": source.choice((0, 0.5, 1)),
        }
        off = {name for name, knob in self.driven.read()["knobs"].items() if knob["support"] == "off"}
        chosen = source.sample(sorted(knobs.keys() - off), source.randint(1, 4))
        self.driven.patch(lease_s=source.choice((1, 60)), **{name: knobs[name] for name in chosen})

    def _purge(self) -> None:
        expect = {self.driven.governor.boot_id: None}
        cached = self.driven.scheduler.cache_config.enable_prefix_caching
        ratio, preempt = self.source.choice((0, 0.3, 1)) if cached else 0, self.source.choice((0, 2, 10))
        runtime = self.driven.call("purge", expect=expect, ratio=ratio, preempt=preempt)
        self.preempted += runtime["purge"]["last"]["preempted"]

    def _lease(self) -> None:
        fallback = self.source.choice((None, {}, {"max_num_seqs": 6}, {"admission_delay_ms": 10}))
        self.driven.lease(lease_s=self.source.choice((1, 30)), fallback=fallback)

    def _stats(self) -> None:
        self.driven.call("stats")

    def _freeze(self) -> None:
        governor = self.driven.governor
        governor.set_frozen(not governor.frozen)


@pytest.mark.parametrize(
    ("async_scheduling", "prefix_caching", "second_runner", "requests"),
    [
        pytest.param(False, True, False, REQUESTS, id="sync"),
        pytest.param(True, True, False, REQUESTS, id="async"),
        pytest.param(False, False, True, REQUESTS // 10, id="sync-uncached-runner2"),
        pytest.param(True, False, True, REQUESTS // 10, id="async-uncached-runner2"),
        pytest.param(True, True, True, REQUESTS // 10, id="async-runner2"),
    ],
)
def test_every_request_gets_exactly_its_own_tokens_in_order_and_once_whatever_the_knobs_do(
    drive: Drive, async_scheduling: bool, prefix_caching: bool, second_runner: bool, requests: int
) -> None:
    driven = drive(async_scheduling=async_scheduling, prefix_caching=prefix_caching, **SETTINGS)
    driven.scheduler.use_v2_model_runner = second_runner  # how a resumed request is handed over differs
    driven.clock = driven.engine.clock.now_s
    driven.adopt()
    storm = _Storm(driven, requests, seed=11)
    storm.run()
    window = driven.governor.window.counters()
    print(
        f"{storm.finished} finished, {storm.aborted} aborted, {driven.governor.generation} changes, "
        f"{dict(storm.kinds)}, "
        f"refused {dict(storm.refused)}, {storm.preempted} preempted by call, window {window}, "
        f"{driven.governor.lease.expirations} leases ran out"
    )
    assert storm.finished + storm.aborted == requests
    assert not storm.asked
    assert not storm.got
    assert driven.read()["degraded"] == []
    assert storm.preempted > requests / 200
    assert window["windows"] > requests / 500
    assert driven.governor.lease.expirations > 0 or requests < REQUESTS
    assert storm.kinds["_purge"] > requests / 200
    pool = driven.scheduler.kv_cache_manager.block_pool
    assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1  # every block came back
