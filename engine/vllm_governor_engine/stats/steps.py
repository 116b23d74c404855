"""Sums over steps: what the capacity model and the batch utilisation are made of.

Here: tokens, context, seconds, their products, budget, running and waiting. Never here: a fit or a ratio.

A step's seconds are the time from its schedule() call, or from the end of the step before it if that is later, to the
end of its own update_from_output(). Under the sync scheduler that is the step from its scheduling to its tokens; under
the async one, where the next batch is scheduled while the device computes, it is the time from one batch's tokens to
the next's, and for a batch that found the pipeline empty the time from its own scheduling. In both cases it is what a
running request waits for its next token, but for the moment between two steps of the sync scheduler, which is summed
apart (`between_seconds`): calls such as ours run in it.
"""

from __future__ import annotations

from collections import deque
from operator import mul
from typing import Any

from vllm_governor_engine.hooks import ScheduleHook

IN_FLIGHT = 64
"""Batches remembered between scheduling and their end at most; vLLM has one in flight per pipeline stage, and one."""
FOLD_EVERY = 256
"""Ended steps that are kept before they are added to the sums: some 60 us then, and less than adding each at once."""
SAMPLE_EVERY = 8
"""Running and waiting requests are counted at every so many-th step."""

_PRODUCTS = {
    "tokens_tokens": (0, 0),
    "tokens_context": (0, 1),
    "context_context": (1, 1),
    "tokens_seconds": (0, 2),
    "context_seconds": (1, 2),
    "seconds_seconds": (2, 2),
}
_SUMS = ("tokens", "context", "seconds", "budget_tokens")


class Steps:
    """The sums since the collection began. `hook` tells when a schedule() call began."""

    def __init__(self, scheduler: Any, hook: ScheduleHook) -> None:
        self._scheduler = scheduler
        self._hook = hook
        self._in_flight: deque[tuple[int, float, int, int, int]] = deque(maxlen=IN_FLIGHT)
        self._done: list[tuple[int, int, float, int]] = []  # tokens, context, seconds, budget
        self._ended = hook.began
        self._goes_on = False  # whether requests were running when the last step ended
        # vLLM keeps some waiting requests in queues of their own, under names that change: it counts them itself.
        self._counts = getattr(scheduler, "get_request_counts", None) or self._plain_counts
        self._until_sample = 1
        self._samples = self._running = self._waiting = 0
        self._n = self._empty = 0
        self._between = 0.0
        self._sums: dict[str, float] = dict.fromkeys((*_SUMS, *_PRODUCTS), 0)
        self._sums["seconds"] = 0.0

    def scheduled(self, output: Any) -> None:
        """A SchedulerOutput was made."""
        tokens = output.total_num_scheduled_tokens
        if not tokens:
            self._empty += 1
            return
        # num_computed_tokens as they were before this step, collected by vLLM itself: summing the requests' own costs
        # several times as much.
        context = sum(output.scheduled_cached_reqs.num_computed_tokens)
        for new in output.scheduled_new_reqs:
            context += new.num_computed_tokens
        in_flight, began = self._in_flight, self._hook.began
        if self._goes_on and not in_flight:
            self._between += began - self._ended
        in_flight.append((id(output), began, tokens, context, self._scheduler.max_num_scheduled_tokens))
        self._until_sample -= 1
        if not self._until_sample:
            self._sample()

    def ended(self, output: Any, now: float) -> None:
        """A SchedulerOutput has become tokens."""
        if not output.total_num_scheduled_tokens:
            return
        in_flight, key = self._in_flight, id(output)
        while in_flight:
            one, began, tokens, context, budget = in_flight.popleft()
            if one == key:
                break
        else:
            return  # it was scheduled before the collection began
        seconds = now - (began if began > self._ended else self._ended)  # noqa: FURB136  # max() costs more
        self._ended = now
        self._goes_on = bool(self._scheduler.running)
        done = self._done
        done.append((tokens, context, seconds, budget))
        if len(done) >= FOLD_EVERY:
            self._fold()

    def read(self) -> dict[str, Any]:
        """See Collector."""
        self._fold()
        return {
            "n": self._n,
            **self._sums,
            "between_seconds": self._between,
            "empty": self._empty,
            "samples": self._samples,
            "running": self._running,
            "waiting": self._waiting,
        }

    def stop(self) -> None:
        """See Collector."""

    def _fold(self) -> None:
        if not self._done:
            return
        tokens, context, seconds, budgets = zip(*self._done, strict=True)
        self._n += len(self._done)
        self._done.clear()
        # Python's own numbers: a NumPy product would overflow one day.
        columns: tuple[list[float], ...] = (
            list(map(int, tokens)), list(map(int, context)), list(seconds), list(map(int, budgets)),
        )  # fmt: skip
        for name, column in zip(_SUMS, columns, strict=True):
            self._sums[name] += sum(column)
        for name, (one, other) in _PRODUCTS.items():
            self._sums[name] += sum(map(mul, columns[one], columns[other]))

    def _sample(self) -> None:
        running, waiting = self._counts()
        self._until_sample = SAMPLE_EVERY
        self._samples += 1
        self._running += running
        self._waiting += waiting

    def _plain_counts(self) -> tuple[int, int]:
        return len(self._scheduler.running), len(self._scheduler.waiting)
