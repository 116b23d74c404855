"""Runs a load through a real engine on the virtual clock. What is recorded of it is `record`'s business."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.emulated_gpu.clock import VirtualClock
from bench.emulated_gpu.inprocess import EngineSettings, InProcessEngine
from bench.hotcold.loads import CLIENTS, Ask, Client, Load

POOL_BLOCKS = 400
"""KV cache blocks; vLLM keeps one of them back."""
BLOCK_TOKENS = 32
SETTINGS = EngineSettings(
    num_blocks=POOL_BLOCKS,
    block_size=BLOCK_TOKENS,
    max_num_seqs=CLIENTS,
    max_num_batched_tokens=2048,
    max_model_len=2048,
)

Prepare = Callable[[InProcessEngine], Any]
"""Called with the engine before the first request: switches tiers on, or starts a recording."""


@dataclass(slots=True)
class LiveResult:
    """One live run. Tokens are prompt tokens of first admissions."""

    requests: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0
    clock_s: float = 0.0
    wrong_answers: int = 0

    @property
    def hit_rate(self) -> float:
        return self.hit_tokens / max(1, self.prompt_tokens)

    @property
    def rps(self) -> float:
        return self.requests / self.clock_s if self.clock_s else 0.0


def run(load: Load, requests: int, seed: int, prepare: Prepare | None = None) -> LiveResult:
    """Drives `load` to its end. `prepare`'s result is dropped; it may keep it."""
    with InProcessEngine(SETTINGS, clock=VirtualClock()) as engine:
        result = LiveResult()
        _count_hits(engine, result)
        if prepare is not None:
            prepare(engine)
        _drive(engine, load.clients(requests, seed), result)
        result.clock_s = engine.clock.now_s()
        return result


def _count_hits(engine: InProcessEngine, result: LiveResult) -> None:
    scheduler = engine.scheduler
    inner = scheduler.schedule

    def schedule(*args: Any, **kwargs: Any) -> Any:
        output = inner(*args, **kwargs)
        for new in output.scheduled_new_reqs:
            if not scheduler.requests[new.req_id].num_preemptions:
                result.prompt_tokens += len(new.prompt_token_ids)
                result.hit_tokens += new.num_computed_tokens
        return output

    scheduler.schedule = schedule


def _drive(engine: InProcessEngine, clients: list[Client], result: LiveResult) -> None:
    clock = engine.clock
    due: list[tuple[float, int, Ask]] = []
    for number, client in enumerate(clients):
        _next(client, None, clock.now_s(), number, due)
    asked: dict[str, tuple[int, Ask]] = {}
    answers: dict[str, list[int]] = {}
    while due or asked:
        if not engine.busy and due:
            clock.sleep_until(due[0][0])
        while due and due[0][0] <= clock.now_s():
            _, number, ask = heapq.heappop(due)
            asked[ask.request_id] = (number, ask)
            engine.add_request(ask.request_id, ask.prompt, ask.answer_tokens)
        for request_id, tokens in engine.step().items():
            answer = answers.setdefault(request_id, [])
            answer += tokens
            number, ask = asked[request_id]
            if len(answer) < ask.answer_tokens:
                continue
            result.requests += 1
            result.wrong_answers += answer != engine.expected(request_id, ask.answer_tokens)
            del asked[request_id], answers[request_id]
            _next(clients[number], answer, clock.now_s(), number, due)


def _next(
    client: Client, answer: list[int] | None, now_s: float, number: int, due: list[tuple[float, int, Ask]]
) -> None:
    try:
        think_s, ask = next(client) if answer is None else client.send(answer)
    except StopIteration:
        return
    heapq.heappush(due, (now_s + think_s, number, ask))
