"""The admission window: arrivals are held for some milliseconds while others run, then admitted together.

Here: whom it holds, for how long, in which order they go. Never here: a knob, a bound.

How it holds. For one schedule() call the admission limit is lowered to the number of running requests, and put back
right after. The queue itself is left alone: a request taken out of it would kill the engine when its client aborts it.

Whom it holds. Exactly those that arrived since the last step that was not held: as soon as anybody else is waiting
(left over from an earlier window, preempted, skipped by vLLM), a lowered limit would hold that one a second time, so
nothing is held. Nor is anything when nothing runs, when the limit is reached anyway, or when a waiting request has KV
blocks.

For how long. The window ends `delay` after its first arrival was first seen. The hook only gets to look once a step,
so a window also ends when the next look would come too late, judging by the last two steps: with steps longer than
the delay nothing is ever held, and nothing has to be, since a step gathers arrivals by itself. Only a step that takes
longer than the two before it can hold a request past the delay, by the difference.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from .knobs.admission_cap import admission_limit
from .knobs.base import Engine

PART = "admission_delay_ms"
"""The name of the window's part of the schedule() hook."""
_SLACK = 256  # ids of gone requests that are remembered before they are dropped


class AdmissionWindow:
    """One scheduler's window. Built closed and idle: until `set_delay` switches it on nothing hangs in the hook."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._scheduler = engine.scheduler
        self.limit, self.support = admission_limit(engine.scheduler)
        """The attribute of the scheduler that admission obeys ("" where there is none), and how it can be moved."""
        self.delay_s = 0.0
        """How long an arrival is held at most, seconds; 0: the window is off."""
        self.grouping = False
        """Whether those that are let go are ordered by prompt length."""
        self.windows = 0
        self.regroupings = 0
        self._known: set[str] = set()  # requests seen before
        self._held: dict[str, Any] = {}
        self._ends_at: float | None = None  # of the open window
        self._limit_before: int | None = None  # set while the limit is lowered
        self._looked_at = 0.0
        self._last_gap_s = 0.0

    @property
    def held(self) -> int:
        """Requests held now. They are among vLLM's waiting ones."""
        return sum(name in self._scheduler.requests for name in self._held)

    def counters(self) -> dict[str, int]:
        """`held` now; since boot `windows` that held somebody, and `regroupings`, those that changed the order."""
        return {"held": self.held, "windows": self.windows, "regroupings": self.regroupings}

    def set_delay(self, delay_s: float) -> None:
        """Hold arrivals so long from now on. 0 lets everybody go at the next step and takes the part out."""
        if delay_s <= 0:
            self.stop()
            return
        if not self.delay_s:
            self._known = set(self._scheduler.requests)
            self._looked_at = self._engine.clock()
            self._last_gap_s = 0.0
            self._engine.hook.add(PART, self._before, self._after, inner=True)
        self.delay_s = delay_s

    def stop(self) -> None:
        """Leave the scheduler as vLLM has it."""
        self.delay_s = 0.0
        self._restore()
        self._close()
        self._known.clear()
        self._engine.hook.remove(PART)

    def _before(self) -> None:
        self._restore()  # the step before failed, if there is something to restore
        now = self._engine.clock()
        next_look_s = self._next_look_s(now)
        self._note_arrivals()
        if not self._held:
            self._ends_at = None
            return
        if self._alone():
            ends_at = now + self.delay_s if self._ends_at is None else self._ends_at
            if self._may_hold() and now + next_look_s <= ends_at:
                self.windows += self._ends_at is None
                self._ends_at = ends_at
                self._lower()  # the last thing done: whatever fails before this, the limit is vLLM's
                return
            if self.grouping:
                self._group()
        self._close()

    def _after(self, output: Any) -> None:
        self._restore()

    def _lower(self) -> None:
        limit = getattr(self._scheduler, self.limit)
        setattr(self._scheduler, self.limit, len(self._scheduler.running))
        self._limit_before = limit

    def _restore(self) -> None:
        if self._limit_before is not None:
            setattr(self._scheduler, self.limit, self._limit_before)
            self._limit_before = None

    def _close(self) -> None:
        self._held.clear()
        self._ends_at = None

    def _next_look_s(self, now: float) -> float:
        """Seconds from now to the next step, judging by the last two; one is too few, since batches come in pairs."""
        gap_s, self._looked_at = now - self._looked_at, now
        expected_s, self._last_gap_s = max(gap_s, self._last_gap_s), gap_s
        return expected_s

    def _note_arrivals(self) -> None:
        """Takes those that arrived since the last step into the window, and lets those go that are gone."""
        requests, known, arrived = self._scheduler.requests, self._known, []
        for name in reversed(requests):
            if name in known:
                break
            arrived.append(name)
        if self._held:
            self._held = {name: held for name, held in self._held.items() if name in requests}
        for name in reversed(arrived):
            known.add(name)
            self._held[name] = requests[name]
        if len(known) > 2 * len(requests) + _SLACK:
            known.intersection_update(requests)

    def _alone(self) -> bool:
        """Whether nobody waits but those of this window, and none of them with KV blocks."""
        return self._engine.waiting == len(self._held) and not any(map(_has_blocks, self._held.values()))

    def _may_hold(self) -> bool:
        limit: int = getattr(self._scheduler, self.limit)
        return 0 < len(self._scheduler.running) < limit

    def _group(self) -> None:
        """Orders the queue by prompt length, ties as they came. All of it is this window's: _alone saw to that."""
        queue = self._scheduler.waiting
        if not groupable(self._scheduler) or len(queue) != len(self._held):
            return
        as_they_came = list(queue)
        ordered = sorted(as_they_came, key=_prompt_tokens)
        if ordered != as_they_came:
            queue.clear()
            queue.extend(ordered)
            self.regroupings += 1


def groupable(scheduler: Any) -> bool:
    """Whether the waiting queue is first come, first served: one whose order is the order of admission."""
    policy = getattr(getattr(scheduler, "policy", None), "value", None)
    return policy == "fcfs" and isinstance(scheduler.waiting, deque)


def _prompt_tokens(request: Any) -> int:
    return int(request.num_prompt_tokens)


def _has_blocks(request: Any) -> bool:
    """Whether a waiting request has KV blocks already, or is getting some from a connector."""
    return request.num_computed_tokens > 0 or "REMOTE" in request.status.name
