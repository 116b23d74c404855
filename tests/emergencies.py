"""Builders of views in which memory or the cache is under pressure, for the tests of three policies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from domain.decision import Proposal, Reason
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_QUEUED_REQS, NO_LIMIT, PREEMPT, PURGE
from domain.runtime import EngineRuntime, Knob, Support
from domain.snapshot import Source
from domain.view import View
from policies.emergency_purge import EmergencyPurge, EmergencyState
from tests.views import knob, runtime, view, with_knobs

FRESH = {source: 0.0 for source in Source if source is not Source.PROMETHEUS}
QUIET: dict[str, Any] = {
    "effective_memory_ratio": 0.60,
    "gpu_memory_usage_ratio": 0.90,
    "hot_blocks_ratio": 0.30,
    "running": 8.0,
    "waiting": 0.0,
    "oldest_waiting_s": 0.0,
    "stalled_s": 0.0,
    "asleep": False,
    "ages_s": FRESH,
}
TIGHT: dict[str, Any] = {"effective_memory_ratio": 0.97, "gpu_memory_usage_ratio": 0.98, "kv_cache_usage_ratio": 0.6}
CROWDED: dict[str, Any] = {
    "kv_cache_usage_ratio": 0.99,
    "hot_blocks_ratio": 0.95,
    "preemptions_per_s": 2.0,
    "oldest_waiting_s": 5.0,
}


def engine(budget: float = 8192, queue: float | None = NO_LIMIT, floor: float = 64, **changes: Any) -> EngineRuntime:
    """With a budget of up to 8192 tokens and a queue limit (None: it has no such knob)."""
    limit = knob(MAX_NUM_QUEUED_REQS, queue, NO_LIMIT, 0, NO_LIMIT)
    if queue is None:
        limit = Knob(MAX_NUM_QUEUED_REQS, None, None, None, None, Support.OFF, "an old vLLM")
    return with_knobs(runtime(**changes), knob(MAX_NUM_BATCHED_TOKENS, budget, 8192, floor, 8192), limit)


def seen(now_s: float, **changes: Any) -> View:
    """All sources fresh, nothing wrong but what is named."""
    return view(now_s, **(QUIET | {"runtime": engine()} | changes))


class Plant:
    """An engine that does what it is told: the knobs of each view are those asked for before."""

    def __init__(self, policy: EmergencyPurge, obeys: bool = True, **knobs: Any) -> None:
        self.policy = policy
        self.state: EmergencyState = policy.initial_state()
        self.now_s = 0.0
        self.made: list[tuple[float, Proposal]] = []
        self._obeys = obeys
        self._knobs = knobs
        self._engine: dict[str, float | None] = {"budget": 8192.0, "queue": NO_LIMIT}

    def run(self, seconds: int, **changes: Any) -> list[Proposal]:
        """So many views, one a second, each with these figures; what was proposed in the last."""
        last: tuple[Proposal, ...] = ()
        for _ in range(seconds):
            known = {"runtime": engine(**self._engine, **self._knobs), **changes}  # type: ignore[arg-type]
            self.state, last = self.policy.decide(self.state, seen(self.now_s, **known))
            self.made += [(self.now_s, one) for one in last]
            if self._obeys:
                self._obey(last)
            self.now_s += 1.0
        return list(last)

    def _obey(self, proposals: Iterable[Proposal]) -> None:
        for one in proposals:
            for name, of in (("budget", MAX_NUM_BATCHED_TOKENS), ("queue", MAX_NUM_QUEUED_REQS)):
                if one.knob == of and one.wanted is not None:
                    self._engine[name] = one.wanted

    def emergencies(self) -> list[Proposal]:
        """All that did something so far."""
        return emergencies(one for _, one in self.made)

    def acts(self, knob: str = PURGE) -> list[tuple[float, float]]:
        """(when, how much) of each act that was proposed."""
        return [(at, one.wanted) for at, one in self.made if one.knob == knob and one.wanted]

    def changes(self, knob: str) -> list[float]:
        """Values that a knob was given, in order, each once."""
        values = [one.wanted for _, one in self.made if one.knob == knob and one.wanted is not None]
        return [value for i, value in enumerate(values) if i == 0 or value != values[i - 1]]

    def reasons(self) -> list[Reason]:
        """What was said of the purge, repetitions left out."""
        said = [one.reason for _, one in self.made if one.knob == PURGE]
        return [reason for i, reason in enumerate(said) if i == 0 or reason is not said[i - 1]]

    def sentence(self, reason: Reason) -> str:
        """The last sentence for that reason; those of the purge go first."""
        said = [one for _, one in reversed(self.made) if one.reason is reason]
        return next((one.sentence for one in said if one.knob == PURGE), said[0].sentence if said else "")


def emergencies(proposals: Iterable[Proposal]) -> list[Proposal]:
    """Those that do something: an act, or a cut."""
    return [one for one in proposals if one.reason.startswith("emergency_") or (one.knob == PREEMPT and one.wanted)]
