"""Follows requests from their admission to their end.

Here: hot and cold requests, hit tokens, preemptions, prompt lengths at admission, the records. Never here: quantiles
of latency.

Why in the engine core and not by a `vllm.stat_logger_plugins` entry in the API process: that switches vLLM's own
statistics on where an operator switched them off, is there from the start and not from the first question, is one per
API process, and what it gets of a finished request has no time to first token. The price: times end when the engine
core has the tokens, so the way to the API process, detokenisation and the client's network are not in them. They begin
where vLLM's begin, at the request's arrival in the API process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from .collector import Clock
from .records import Records

PROMPTS = 1024
"""Prompt lengths of the newest admissions that are kept."""


class _Open:
    """A request that was admitted and has not ended. `recorded`: whether it will leave a record."""

    __slots__ = ("admitted_at", "first_at", "hit_tokens", "recorded", "request")

    def __init__(self, request: Any, hit_tokens: int, admitted_at: float, recorded: bool) -> None:
        self.request = request
        self.hit_tokens = hit_tokens
        self.admitted_at = admitted_at
        self.recorded = recorded
        self.first_at: float | None = None


class Requests:
    """Counts since the collection began. `clock` gives monotonic seconds, `wall` the time of the day.

    A request is counted and recorded from its first admission on; one that was running before only adds to preemptions.
    """

    def __init__(self, scheduler: Any, clock: Clock, wall: Clock) -> None:
        self.records = Records()
        self.silent: dict[str, _Open] = {}
        """The requests that have no token yet, by id: while there are any, somebody has to call `spoke`."""
        self._scheduler = scheduler
        self._clock = clock
        self._wall = wall
        self._caching = bool(getattr(scheduler.kv_cache_manager, "enable_caching", True))
        self._connected = getattr(scheduler, "connector", None) is not None
        # With those that were admitted before: in their order, which are `running` or preempted.
        before = [one for one in scheduler.requests.values() if one.num_computed_tokens or one.num_preemptions]
        self._open = {one.request_id: _Open(one, 0, 0.0, recorded=False) for one in before}
        self._preempted_before = sum(one.num_preemptions for one in before)
        self._preemptions = 0  # of requests that have ended
        self._prompts: deque[int] = deque(maxlen=PROMPTS)
        self._hot = self._cold = self._prompt_tokens = self._hit_tokens = self._gave_up = 0
        self._external_tokens: int | None = 0

    def changed(self, output: Any, ended: float) -> None:
        """A SchedulerOutput admits requests or tells of some that have gone. `ended`: when the last step did."""
        if output.finished_req_ids:  # first: an id may be taken again at once
            self._finish(output.finished_req_ids, ended)
        if output.scheduled_new_reqs:
            self._admit(output.scheduled_new_reqs)

    def spoke(self) -> None:
        """A step has ended: whose first token was that?"""
        silent = self.silent
        spoke = [request_id for request_id, opened in silent.items() if opened.request.num_output_tokens]
        if spoke:
            at = self._wall()
            for request_id in spoke:
                silent.pop(request_id).first_at = at

    @property
    def preemptions(self) -> int:
        """How often a request was preempted since the collection began."""
        still_open = sum(int(opened.request.num_preemptions) for opened in self._open.values())
        return self._preemptions + still_open - int(self._preempted_before)

    def read(self) -> dict[str, Any]:
        """See Collector."""
        self._forget_lost()
        cache = {
            "hot_requests": self._hot,
            "cold_requests": self._cold,
            "prompt_tokens": self._prompt_tokens,
            "hit_tokens": self._hit_tokens,
            "external_hit_tokens": self._external_tokens,
        }
        return {
            "admitted": self._hot + self._cold,
            "finished": self.records.total,
            "gave_up": self._gave_up,
            "preemptions": self.preemptions,
            "cache": cache if self._caching else None,
            "prompts": self._spread(),
        }

    def stop(self) -> None:
        """See Collector."""

    def _admit(self, admitted: Iterable[Any]) -> None:
        at = self._wall()
        requests, known = self._scheduler.requests, self._open
        for new in admitted:
            name = new.req_id
            request = requests.get(name)
            # One that was preempted comes again under vLLM's second model runner, and was counted the first time.
            if request is None or name in known:
                continue
            prompt, hit = int(request.num_prompt_tokens), int(new.num_computed_tokens)
            own = hit - self._external(request) if self._connected else hit
            if own > 0:
                self._hot += 1
            else:
                self._cold += 1
            self._prompt_tokens += prompt
            self._hit_tokens += own
            self._prompts.append(prompt)
            # Not a session: how long one takes is its client's doing.
            recorded = not getattr(request, "resumable", False)
            opened = known[name] = _Open(request, own, at, recorded)
            if recorded:
                self.silent[name] = opened

    def _external(self, request: Any) -> int:
        """Tokens a KV connector brought; 0, and unknown from then on, where vLLM does not say."""
        counted = getattr(getattr(request, "prefill_stats", None), "num_external_cached_tokens", None)
        if counted is None or self._external_tokens is None:
            self._external_tokens = None
            return 0
        self._external_tokens += int(counted)
        return int(counted)

    def _finish(self, finished: Iterable[str], ended: float) -> None:
        # They ended with the step before, or were aborted since.
        at = self._wall() - (self._clock() - ended)
        for name in finished:
            opened = self._open.pop(name, None)
            if opened is None:
                self._gave_up += 1
                continue
            self.silent.pop(name, None)
            request = opened.request
            # A first token that is the last one is noticed a moment after its step's end, which is the end here.
            first_at = None if opened.first_at is None else min(opened.first_at, at)
            preemptions = int(request.num_preemptions)
            self._preemptions += preemptions
            if opened.recorded:
                arrival = request.arrival_time
                self.records.add(
                    (
                        at,
                        request.status,
                        request.num_prompt_tokens,
                        request.num_output_tokens,
                        opened.hit_tokens,
                        preemptions,
                        opened.admitted_at - arrival,
                        None if first_at is None else first_at - arrival,
                        at - arrival,
                    )
                )

    def _forget_lost(self) -> None:
        """Requests whose end was not told, if there are any: they must not pile up."""
        known, told = self._scheduler.requests, self._scheduler.finished_req_ids
        for name in [one for one in self._open if one not in known and one not in told]:
            self._preemptions += int(self._open.pop(name).request.num_preemptions)
            self.silent.pop(name, None)

    def _spread(self) -> dict[str, int] | None:
        ordered = sorted(self._prompts)
        if not ordered:
            return None
        last = len(ordered) - 1
        return {"n": len(ordered), **{f"p{q}": ordered[round(q / 100 * last)] for q in (10, 50, 90)}}
