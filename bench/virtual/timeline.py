"""What a run answers: one row a tick, one row a request.

Belongs here: the run as values, and the few sums that every reader wants. Never: a goal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.virtual.device import Used
from domain.decision import Decision
from domain.histogram import Histogram
from domain.slo import Latency
from domain.view import View


@dataclass(frozen=True, slots=True)
class Served:
    """One request that was answered. Seconds of the run's clock; `at_s` is its arrival."""

    request_id: str
    at_s: float
    queue_s: float
    ttft_s: float
    e2e_s: float
    worst_gap_s: float
    """Longest time between two of its tokens; 0 with one token."""
    p95_gap_s: float
    """95 % of the times between two of its tokens are at most this; 0 with one token."""
    prompt_tokens: int
    answer_tokens: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Right after what the governor did at `at_s`. `knobs`: the values then in force."""

    at_s: float
    knobs: Mapping[str, float]
    running: int
    waiting: int
    served: int
    """Requests answered since the start, as are the refused ones."""
    refused: int
    view: View
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Cache:
    """The prefix cache over a whole run, in tokens."""

    prompt_tokens: int = 0
    """Of all requests that were admitted."""
    hit_tokens: int = 0
    """Of these, found in the cache."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """One run."""

    seconds: float
    ticks: tuple[Tick, ...]
    served: tuple[Served, ...]
    refused: int
    latencies: Mapping[Latency, Histogram]
    """Over the whole run."""
    steps: int
    """Steps of the engine with tokens in them."""
    turned_away: tuple[float, ...] = ()
    """When requests came that the door did not let in, seconds."""
    device: Used = field(default_factory=Used)
    """What the device did."""
    cache: Cache = Cache()
    """What the prefix cache spared, as of the last tick; so are the preemptions."""
    preemptions: int = 0
    most_running: int = 0
    """The most requests that were in one step."""

    def requests_per_s(self, from_s: float = 0.0) -> float:
        """Requests answered a second from `from_s` to the end, by the moment of their end."""
        done = sum(one.at_s + one.e2e_s >= from_s for one in self.served)
        return done / (self.seconds - from_s)

    def knob(self, name: str) -> list[tuple[float, float]]:
        """(when, which value) at every tick."""
        return [(tick.at_s, tick.knobs[name]) for tick in self.ticks if name in tick.knobs]
