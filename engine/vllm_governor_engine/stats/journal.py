"""What is written down at each step: two functions that run on the engine's thread between vLLM's own work.

Here: one line when a batch was scheduled and the time when it has become tokens, and handing on what rarely happens.
Never here: a sum or a product over steps, that is `steps`; what becomes of a request, that is `requests`.

The price of a step is how many of Python's instructions it takes, so the usual step, in which those that decoded go on
decoding, takes a short way through: no sum, no call, no count. All else is off it, in `_look`.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

from vllm_governor_engine.hooks import Method, ScheduleHook

from .collector import Clock

SAMPLE_EVERY = 8
"""At every so many-th step running and waiting requests are counted, and the context is summed whatever is known."""
FOLD_EVERY = 64
"""After so many steps the lines are added up: some 30 us then."""
IN_FLIGHT = 64
"""Batches remembered between scheduling and their end at most; vLLM has one in flight per pipeline stage, and one."""
_NOBODY = -1

Line = tuple[float, int, int, int, bool]
"""When its schedule() began, tokens, context, budget, whether it goes on with requests that were running."""


class Journal:
    """The lines since they were last taken, oldest first, and what is counted beside them.

    **Context** is the sum of num_computed_tokens as they were before the step. When a step gave each running request
    one token, and the next one schedules as many requests and a token for each, and none of those came in with it, then
    it is the same requests, and each has as many tokens more as the first of them. Where vLLM may take tokens back from
    a request that runs on (speculation, a KV connector's failed load) the context is summed at every step; so it is
    from then on when a sum, made at every SAMPLE_EVERY-th step in any case, should differ.
    """

    __slots__ = (
        "_begun", "_changed", "_clock", "_counts", "_ended", "_everybody", "_failed", "_fold", "_gone", "_hook",
        "_in_flight", "_padding", "_sample_at", "_scheduler", "_silent", "_spoke", "_trusted", "_until", "_writing",
        "_zero", "empty", "ended_at", "running", "samples", "waiting",
    )  # fmt: skip

    def __init__(self, scheduler: Any, hook: ScheduleHook, clock: Clock) -> None:
        self._scheduler = scheduler
        self._hook = hook
        self._clock = clock
        # These three stay the same objects: the wrapper has them. `_ended` goes with the first lines of `_begun`, and
        # `_in_flight`, the outputs that have not ended, with the others.
        self._begun: list[Line] = []
        self._ended: list[float] = []
        self._in_flight: list[Any] = []
        self._gone = 0  # lines that were taken or lost
        self._sample_at = 0  # the number of the line at which the next sample is due
        self._writing = False
        self.ended_at = clock()
        """When the last step ended, on the clock."""
        self.empty = self.samples = self.running = self.waiting = 0
        # vLLM keeps some waiting requests in queues of their own, under names that change: it counts them itself.
        self._counts = getattr(scheduler, "get_request_counts", None) or self._plain_counts
        # The requests of the last step when the next context can be told from it, else _NOBODY. While the first of them
        # has fewer than `_until` tokens, it is `_zero` and, for each of them, as many as the first has.
        self._everybody = _NOBODY
        self._zero = self._until = 0
        only_forward = getattr(scheduler, "num_spec_tokens", None) == 0
        self._trusted = only_forward and getattr(scheduler, "connector", self) is None
        self._fold = self._failed = self._changed = self._spoke = _nothing
        self._silent: Sized = ()
        self._padding: Callable[[Any], None] | None = None

    def write(self, fold: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """Write lines from now on. `fold` has to take them; what it or writing raises goes to `failed`, which must call
        `stop_writing`."""
        self._fold, self._failed, self._writing = fold, failed, True

    def stop_writing(self) -> None:
        """Write no more lines."""
        self._writing, self._everybody = False, _NOBODY
        for kept in (self._begun, self._ended, self._in_flight):
            kept.clear()

    def take(self) -> list[tuple[Line, float]]:
        """The lines that have ended, each with the time of its end; they are forgotten here."""
        taken = list(zip(self._begun, self._ended, strict=False))
        del self._begun[: len(taken)]
        self._ended.clear()
        self._gone += len(taken)
        return taken

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

    def scheduled(self, output: Any) -> None:
        """A SchedulerOutput was made."""
        try:
            cached = output.scheduled_cached_reqs
            computed = cached.num_computed_tokens
            tokens = output.total_num_scheduled_tokens
            if (
                tokens == self._everybody == len(computed)
                and computed[0] < self._until
                and not cached.resumed_req_ids
                and not output.finished_req_ids
            ):
                context = self._zero + tokens * computed[0]
                self._begun.append((self._hook.began, tokens, context, self._scheduler.max_num_scheduled_tokens, True))
                self._in_flight.append(output)
                return
            if self._writing:
                self._look(output, computed, tokens)
        except Exception as error:  # ours to catch: serving goes on whatever a collector does
            self._failed(error)
        if output.scheduled_new_reqs or output.finished_req_ids:
            self._changed(output)

    def around(self, original: Method) -> Method:
        """The wrapper of update_from_output(): a SchedulerOutput has become tokens."""
        clock, in_flight, end = self._clock, self._in_flight, self._ended.append

        def update_from_output(scheduler_output: Any, model_runner_output: Any) -> Any:
            outputs = original(scheduler_output, model_runner_output)
            now = self.ended_at = clock()
            if in_flight and (in_flight[0] is scheduler_output or self._lose_until(scheduler_output)):
                del in_flight[0]
                end(now)
            if self._silent:
                self._spoke()
            if self._padding is not None:
                self._padding(model_runner_output)
            return outputs

        return update_from_output

    def _look(self, output: Any, computed: list[int], tokens: int) -> None:
        """A step that is not like the one before, or one at which a sample is due."""
        if not tokens:
            self.empty += 1
            return
        number = self._gone + len(self._begun)
        if number >= self._sample_at:
            self._sample_at = number + SAMPLE_EVERY
            self._sample()
        new, resumed = output.scheduled_new_reqs, output.scheduled_cached_reqs.resumed_req_ids
        requests = len(computed)
        # vLLM collects num_computed_tokens itself: summing the requests' own costs several times as much.
        context = sum(computed) + sum([one.num_computed_tokens for one in new])
        if tokens == self._everybody == requests and not resumed and context != self._zero + tokens * computed[0]:
            self._trusted = False
        if self._trusted and not new and requests == tokens == len(self._scheduler.running):
            self._everybody, self._zero = requests, context - tokens * computed[0]
            self._until = computed[0] + self._sample_at - number
        else:
            self._everybody = _NOBODY
        goes_on = number > 0 and requests > len(resumed)
        self._begun.append((self._hook.began, tokens, context, self._scheduler.max_num_scheduled_tokens, goes_on))
        self._in_flight.append(output)

    def _sample(self) -> None:
        running, waiting = self._counts()
        self.samples += 1
        self.running += running
        self.waiting += waiting
        self._lose(len(self._in_flight) - IN_FLIGHT)
        if len(self._begun) >= FOLD_EVERY:
            self._fold()

    def _lose_until(self, output: Any) -> bool:
        """Forget the batches before this one; False when it is none of those in flight: all of them stay."""
        for before, one in enumerate(self._in_flight):
            if one is output:
                self._lose(before)
                return True
        return False

    def _lose(self, oldest: int) -> None:
        """Forget batches that will not end any more."""
        if oldest > 0:
            ended = len(self._ended)
            del self._in_flight[:oldest], self._begun[ended : ended + oldest]
            self._gone += oldest

    def _plain_counts(self) -> tuple[int, int]:
        return len(self._scheduler.running), len(self._scheduler.waiting)


def _nothing(*arguments: Any) -> None:
    """Stands where nobody wants to be told."""
