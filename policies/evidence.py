"""Ticks as evidence: what each adds, which have the same load.

Belongs here: comparing loads. Never: comparing results (policies/judgement.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from statistics import median

from domain.histogram import Histogram
from domain.slo import Latency
from domain.view import View

JUDGED = (Latency.TTFT, Latency.ITL, Latency.E2E)
SMOOTHED_S = 10.0
"""Arrivals are compared as means over this long: those of one second are noise."""
STEP_SIGMAS = 4.0
"""So far beyond the noise of arrivals a tick's are a step of the load."""


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick adds to the evidence. `arrived` is finished plus what the requests inside grew by."""

    now_s: float
    seconds: float
    finished: float
    inside: float
    arrived: float | None = None
    completed: Mapping[Latency, Histogram] = field(default_factory=dict)

    def tokens_per_s(self) -> float | None:
        """Tokens that came out, each with a latency of its own."""
        counted = [self.completed[kind].samples for kind in (Latency.TTFT, Latency.ITL) if kind in self.completed]
        return sum(counted) / self.seconds if len(counted) == 2 else None


def tick_of(view: View, before: Tick | None) -> Tick | None:
    """This view as evidence; None when it holds no new reading."""
    finished = view.completed.get(Latency.E2E)
    if view.completed_s is None or finished is None or view.running is None or view.waiting is None:
        return None
    inside = view.running + view.waiting
    arrived = None if before is None else max(0.0, finished.samples + inside - before.inside)
    kept = {kind: view.completed[kind] for kind in JUDGED if kind in view.completed}
    return Tick(view.now_s, view.completed_s, finished.samples, inside, arrived, kept)


@dataclass(frozen=True, slots=True)
class Load:
    """What the engine was asked for: arrivals a second, and requests inside it."""

    per_s: float
    inside: float


def load_of(ticks: Sequence[Tick]) -> Load | None:
    """Mean arrivals and median number inside; None without arrivals."""
    counted = [tick for tick in ticks if tick.arrived is not None]
    seconds = sum(tick.seconds for tick in counted)
    if not counted or seconds <= 0:
        return None
    return Load(sum(tick.arrived or 0.0 for tick in counted) / seconds, median(tick.inside for tick in counted))


def matching(ticks: Sequence[Tick], load: Load, tolerance: float) -> list[Tick]:
    """The ticks with that load.

    Either as many requests were inside (clients that wait for their answer bring more when served faster), or as many
    arrived (clients that do not wait), and no step of the arrivals explains a change of the number inside.
    """
    found: list[Tick] = []
    stepped = False
    for index, tick in enumerate(ticks):
        as_many_inside = abs(tick.inside - load.inside) <= tolerance * load.inside
        stepped = not as_many_inside and (stepped or _steps(tick, load))
        if as_many_inside or (not stepped and _as_many_arrive(ticks, index, load, tolerance)):
            found.append(tick)
    return found


def _steps(tick: Tick, load: Load) -> bool:
    if tick.arrived is None:
        return True
    usual = load.per_s * tick.seconds
    return abs(tick.arrived - usual) > STEP_SIGMAS * math.sqrt(max(usual, 1.0))


def _as_many_arrive(ticks: Sequence[Tick], index: int, load: Load, tolerance: float) -> bool:
    """Over the last seconds; as far as so few arrivals can tell."""
    first = index
    while first > 0 and ticks[index].now_s - ticks[first - 1].now_s < SMOOTHED_S:
        first -= 1
    recent = ticks[first : index + 1]
    here = load_of(recent)
    if here is None:
        return False
    usual = load.per_s * sum(tick.seconds for tick in recent)
    noise = 2 / math.sqrt(usual) if usual > 0 else 1.0
    return abs(here.per_s - load.per_s) <= max(tolerance, noise) * load.per_s


def series(ticks: Iterable[Tick], measure: Callable[[Tick], float | None]) -> list[float]:
    """A measure of each tick that has it."""
    return [value for tick in ticks if (value := measure(tick)) is not None]


def pooled(ticks: Iterable[Tick], latency: Latency) -> Histogram | None:
    """All that completed in these ticks."""
    found = [tick.completed[latency] for tick in ticks if latency in tick.completed]
    return reduce(lambda a, b: a.add(b) or a, found) if found else None
