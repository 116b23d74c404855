"""What others steer concurrency by: two adaptive limiters from the literature, on the cap alone.

Belongs here: the two algorithms, and the hand that sets the cap. Never: a policy of the daemon.

They see what the daemon sees at the same ticks, start at vLLM's default, and what they do not let run waits in vLLM's
queue, as under the daemon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bench.virtual.pilot import Pilot
from bench.virtual.plugin import Plugin
from controller.deciding.order import Decided
from domain.histogram import Histogram
from domain.knobs import MAX_NUM_SEQS
from domain.runtime import EngineRuntime
from domain.slo import Latency, Slo
from domain.snapshot import Snapshot
from policies.guards import GuardSettings

LOWEST = 8
"""No limiter goes below; the rollback of the seeds is 8 too."""


@dataclass(frozen=True, slots=True)
class Second:
    """What a limiter is told at a tick: what was observed since the tick before."""

    running: int
    ttft: Histogram
    itl: Histogram
    ttft_slo: Slo


class Limiter(Protocol):
    """Adapts a limit on requests that run at once."""

    def update(self, limit: float, seen: Second) -> float:
        """The next limit."""
        ...


@dataclass(frozen=True, slots=True)
class Aimd:
    """Additive increase, multiplicative decrease on the time to first token (as in TCP; Chiu and Jain 1989)."""

    cut: float = 0.9

    def update(self, limit: float, seen: Second) -> float:
        """Cut when more requests than allowed were late; one more when at least half of the limit is used."""
        late = seen.ttft.fraction_above(seen.ttft_slo.bound_s)
        if late is not None and late > seen.ttft_slo.allowed_ratio:
            return limit * self.cut
        return limit + 1.0 if 2 * seen.running >= limit else limit


class Gradient:
    """Gradient of latency: long-term over short-term inter-token latency (the idea of Netflix's concurrency-limits,
    Gradient2: tolerance 1.5, queue 4, smoothing 0.2, a long term of 600 windows).
    """

    def __init__(self) -> None:
        self._long_s: float | None = None

    def update(self, limit: float, seen: Second) -> float:
        """Towards limit x gradient + queue; unchanged while less than half of the limit is used or samples are few."""
        short_s = seen.itl.mean
        if short_s is None or seen.itl.samples < 10:
            return limit
        self._long_s = short_s if self._long_s is None else self._long_s + (short_s - self._long_s) * 2.0 / 601.0
        if self._long_s > 2.0 * short_s:
            self._long_s *= 0.95
        if 2 * seen.running < limit:
            return limit
        gradient = max(0.5, min(1.0, 1.5 * self._long_s / short_s))
        return 0.8 * limit + 0.2 * (limit * gradient + 4.0)


LIMITERS: dict[str, Callable[[], Limiter]] = {"aimd": Aimd, "gradient": Gradient}


class Limited:
    """Somebody who steers by a limiter (bench.virtual.pilot.Steering)."""

    def __init__(self, plugin: Plugin, limiter: Limiter, slos: tuple[Slo, ...], tick_s: float) -> None:
        self.slos = slos
        self._plugin, self._limiter = plugin, limiter
        self._watcher = Pilot(plugin, None, GuardSettings(), slos, tick_s)
        self._before: dict[Latency, Histogram] = {}
        self._limit: float | None = None

    def tick(self, snapshot: Snapshot, runtime: EngineRuntime) -> Decided:
        """One turn: what was seen since the one before, the next limit, the cap."""
        seen, cap = self._second(snapshot, runtime), runtime.knob(MAX_NUM_SEQS)
        if seen is not None and cap is not None and cap.value is not None:
            limit = self._limiter.update(cap.value if self._limit is None else self._limit, seen)
            self._limit = min(max(limit, LOWEST), cap.maximum or limit)
            if int(self._limit) != cap.value:
                self._plugin.set(runtime, {MAX_NUM_SEQS: float(int(self._limit))})
        return self._watcher.tick(snapshot, runtime)

    def _second(self, snapshot: Snapshot, runtime: EngineRuntime) -> Second | None:
        if snapshot.vllm is None:
            return None
        now, before = dict(snapshot.vllm.latencies), self._before
        self._before = now
        if not before:
            return None
        ttft, itl = (now[one].since(before[one]) for one in (Latency.TTFT, Latency.ITL))
        slo = next(slo for slo in self.slos if slo.latency is Latency.TTFT)
        return None if ttft is None or itl is None else Second(int(runtime.running), ttft, itl, slo)
