"""The knob `max_num_queued_reqs` in this process: how many requests may wait, over all engine cores.

Here: turning "N may wait" into what this vLLM can count. Never here: counting, where vLLM does it.

Source: `AsyncLLM.check_admission` (vLLM 0.29 on) reads `scheduler_config.max_num_queued_reqs` of the API process and
counts waiting and running requests together. So a queue of N is the sum over the engine cores of what each holds, plus
N: max(cap, running), or less than the cap where something else bounds what runs (queue_room.py). It is computed anew
once a second, since the caps move and the running count follows a lowered cap slowly.
Several API processes share a counter only where vLLM was started with --max-num-queued-reqs; otherwise each gets its
part of the limit. Before 0.29 the gate counts.
"""

from __future__ import annotations

from typing import Any

from vllm_governor_engine import probe
from vllm_governor_engine.knobs.api_side import QUEUE

from .gate import Gate
from .parts import Offer, Situation, off

_ATTRIBUTE = "max_num_queued_reqs"
MOST = 1_000_000
_OURS = "this vLLM has no queue limit; HTTP requests are counted instead, and one for several sequences counts once"
_SHARED = (
    "the API processes share no counter (0.30 on has one if started with --max-num-queued-reqs): each takes its part"
)


class QueueLimit:
    """The queue limit; `engine_client` is vLLM's AsyncLLM, `index` this process's place among the API processes."""

    name = QUEUE

    def __init__(self, engine_client: Any, gate: Gate, index: int = 0) -> None:
        self._client = engine_client
        self._gate = gate
        self._index = index
        self._native = bool(probe.reads(type(engine_client), "check_admission", _ATTRIBUTE))
        self._startup: int | None = getattr(self._config, _ATTRIBUTE, None) if self._native else None
        if self._startup is not None:
            self._startup = int(self._startup)
        self._processes = self._told = int(getattr(engine_client, "_client_count", 0) or 0)

    @property
    def _config(self) -> Any:
        return getattr(self._client, "scheduler_config", None)

    def offer(self) -> Offer:
        """Native, limited where processes do not share a counter, ours where vLLM has none."""
        if self._client is None:
            return off("this API process has no engine")
        if not self._native:
            why = self._gate.unusable()
            return off(why) if why else Offer("limited", _OURS, low=0, high=MOST)
        if not hasattr(self._config, _ATTRIBUTE):
            return off(f"{type(self._client).__name__} has no scheduler_config this plugin knows")
        high = MOST if self._startup is None else min(MOST, self._startup)
        if self._divided:
            return Offer("limited", _SHARED, low=0, high=high)
        return Offer(low=0, high=high)

    def apply(self, value: int | None, situation: Situation) -> None:
        """For requests from now on; those already in stay."""
        if value is None:
            self.release()
            return
        self._processes = self._told or situation.api_processes
        limit = sum(core.room for core in situation.engines) + value
        if self._divided:  # all parts together are the limit
            limit = limit // self._processes + (self._index < limit % self._processes)
        if not self._native:
            self._gate.limit(limit, self._unfinished)
            return
        # What vLLM was started with is the envelope.
        limit = limit if self._startup is None else min(limit, self._startup)
        if getattr(self._config, _ATTRIBUTE) != limit:
            setattr(self._config, _ATTRIBUTE, limit)
        if self._gate.unusable() is None:
            self._gate.explain_refusals(True)

    def release(self) -> None:
        """As vLLM was started."""
        if self._native and getattr(self._config, _ATTRIBUTE) != self._startup:
            setattr(self._config, _ATTRIBUTE, self._startup)
        self._gate.explain_refusals(False)
        self._gate.limit(None)

    @property
    def _divided(self) -> bool:
        return self._processes > 1 and getattr(self._client, "admission_stats", None) is None

    def _unfinished(self) -> int:
        return int(self._client.output_processor.get_num_unfinished_requests())
