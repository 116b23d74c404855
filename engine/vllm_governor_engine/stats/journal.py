"""What is written down at each step: two functions that run on the engine's thread between vLLM's own work.

Here: one line when a batch was scheduled and one when it has become tokens, and handing on what rarely happens. Never
here: a sum or a product over steps, that is `steps`; what becomes of a request, that is `requests`.

Between two steps vLLM's work drives ours out of the CPU's caches, so the price is how many objects are touched and not
how much is computed. Hence one function per event where several would read better, built-ins bound as defaults, and
lines that somebody adds up later.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

from vllm_governor_engine.hooks import ScheduleHook

from .collector import Clock

SAMPLE_EVERY = 8
"""At every so many-th step running and waiting requests are counted, and the context is summed whatever is known."""
FOLD_EVERY = 64
"""After so many steps the lines are added up: some 50 us then."""
FEW = 64
"""For up to so many requests, summing their context costs no more than finding out that it need not be summed."""
_NOBODY = -1

Line = tuple[Any, ...]
"""Scheduled: id of the output, when its schedule() began, tokens, context, budget. Ended: id, when, whether requests
run on."""


class Journal:
    """The lines since they were last taken, oldest first, and what is counted beside them.

    **Context** is the sum of num_computed_tokens as they were before the step. When a step gave each running request
    one token, the next step schedules each running request one token, as many of them, and none of those came in with
    it, then it is the same requests, and their context is the last one and a token for each. Where vLLM may take
    tokens back from a request that runs on (speculation, a KV connector's failed load) it is summed at every step; so
    it is from then on when a sum, made at every SAMPLE_EVERY-th step in any case, should differ.
    """

    __slots__ = (
        "_changed", "_clock", "_context", "_counts", "_everybody", "_failed", "_first", "_fold", "_hook", "_left",
        "_note", "_padding", "_scheduler", "_silent", "_spoke", "_trusted", "_until_fold", "empty", "ended_at",
        "lines", "running", "samples", "waiting",
    )  # fmt: skip

    def __init__(self, scheduler: Any, hook: ScheduleHook, clock: Clock) -> None:
        self._scheduler = scheduler
        self._hook = hook
        self._clock = clock
        self.lines: list[Line] = []
        self.ended_at = clock()
        """When the last step ended, on the clock."""
        self.empty = self.samples = self.running = self.waiting = 0
        self._left = 1  # steps until the next sample
        self._until_fold = FOLD_EVERY // SAMPLE_EVERY
        # vLLM keeps some waiting requests in queues of their own, under names that change: it counts them itself.
        self._counts = getattr(scheduler, "get_request_counts", None) or self._plain_counts
        # The requests of the last step when the next context can be told from it, else _NOBODY; the context that the
        # next step then has, and that of its first request.
        self._everybody = _NOBODY
        self._context = self._first = 0
        only_forward = getattr(scheduler, "num_spec_tokens", None) == 0
        self._trusted = only_forward and getattr(scheduler, "connector", self) is None
        self._note: Callable[[Line], None] | None = None
        self._fold = self._failed = self._changed = self._spoke = _nothing
        self._silent: Sized = ()
        self._padding: Callable[[Any], None] | None = None

    def write(self, fold: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """Write lines from now on. `fold` has to take them; what it or writing raises goes to `failed`, which must call
        `stop_writing`."""
        self._fold, self._failed, self._note = fold, failed, self.lines.append

    def stop_writing(self) -> None:
        """Write no more lines."""
        self._note = None
        self.lines.clear()

    def follow(self, changed: Callable[[Any], None], silent: Sized, spoke: Callable[[], None]) -> None:
        """Call `changed(output)` when requests came or went, and `spoke()` after each step while any is `silent`.

        Neither may raise.
        """
        self._changed, self._silent, self._spoke = changed, silent, spoke

    def stop_following(self) -> None:
        """Undo `follow`."""
        self._changed, self._silent, self._spoke = _nothing, (), _nothing

    def pad(self, padding: Callable[[Any], None] | None) -> None:
        """Call `padding(model_output)` after each step, which may not raise; None: nobody wants to know."""
        self._padding = padding

    def scheduled(self, output: Any, _len: Any = len, _sum: Any = sum, _id: Any = id) -> None:
        """A SchedulerOutput was made."""
        note = self._note
        if note is not None:
            try:
                new = output.scheduled_new_reqs
                tokens = output.total_num_scheduled_tokens
                if tokens:
                    cached, scheduler = output.scheduled_cached_reqs, self._scheduler
                    computed = cached.num_computed_tokens
                    self._left = left = self._left - 1
                    # vLLM collects num_computed_tokens itself: summing the requests' own costs several times as much.
                    same = (
                        tokens == self._everybody == _len(computed) == _len(scheduler.running)
                        and computed[0] == self._first
                        and not cached.resumed_req_ids
                    )
                    if same and left:
                        context = self._context
                        self._context = context + tokens
                        self._first += 1
                    else:
                        context = _sum(computed)
                        if new or not left or _len(computed) > FEW:
                            context = self._look(output, context, same)
                    note((_id(output), self._hook.began, tokens, context, scheduler.max_num_scheduled_tokens))
                else:
                    self.empty += 1
            except Exception as error:  # ours to catch: serving goes on whatever a collector does
                self._failed(error)
        if output.scheduled_new_reqs or output.finished_req_ids:
            self._changed(output)

    def ended(self, output: Any, model_output: Any, _id: Any = id) -> None:
        """A SchedulerOutput has become tokens."""
        now = self.ended_at = self._clock()
        note = self._note
        if note is not None:
            try:
                if output.total_num_scheduled_tokens:
                    note((_id(output), now, True if self._scheduler.running else False))  # noqa: SIM210  # bool() costs more
            except Exception as error:  # as above
                self._failed(error)
        if self._silent:
            self._spoke()
        if self._padding is not None:
            self._padding(model_output)

    def _look(self, output: Any, context: int, same: bool) -> int:
        """The context with that of the new requests; what the next one can be told from; the sample when it is due."""
        new, computed = output.scheduled_new_reqs, output.scheduled_cached_reqs.num_computed_tokens
        tokens, requests = output.total_num_scheduled_tokens, len(computed)
        if same and context != self._context:
            self._trusted = False
        if new or not self._trusted or not FEW < requests == tokens == len(self._scheduler.running):
            self._everybody = _NOBODY
            context += sum(one.num_computed_tokens for one in new)
        else:
            self._everybody, self._context, self._first = requests, context + tokens, computed[0] + 1
        if not self._left:
            self._sample()
        return context

    def _sample(self) -> None:
        self._left = SAMPLE_EVERY
        running, waiting = self._counts()
        self.samples += 1
        self.running += running
        self.waiting += waiting
        self._until_fold -= 1
        if not self._until_fold:
            self._until_fold = FOLD_EVERY // SAMPLE_EVERY
            self._fold()

    def _plain_counts(self) -> tuple[int, int]:
        return len(self._scheduler.running), len(self._scheduler.waiting)


def _nothing(*arguments: Any) -> None:
    """Stands where nobody wants to be told."""
