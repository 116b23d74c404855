"""The signals: what the last tick measured.

Belongs here: their values now with their meaning. Never: what they were (readings.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from controller.loop import Loop
from domain.view import SIGNALS, View


@dataclass(frozen=True, slots=True)
class Signal:
    """`value` None: not known now."""

    name: str
    value: float | None
    meaning: str


@dataclass(frozen=True, slots=True)
class LatencyNow:
    """One of vLLM's latencies over the window; a quantile is None without samples."""

    name: str
    samples: float
    mean_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None


@dataclass(frozen=True, slots=True)
class SignalsNow:
    """Those of the last tick that could read anything; `at` None: there was none yet."""

    at: datetime | None
    fresh: bool
    window_s: float
    signals: tuple[Signal, ...]
    latencies: tuple[LatencyNow, ...]
    ages_s: Mapping[str, float]
    problems: Mapping[str, str]


class Signals:
    """Reads alone."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def now(self) -> SignalsNow:
        """Every signal, known or not."""
        observed = self._loop.observed
        view = observed.view
        values = {} if view is None else dict(view.signals())
        return SignalsNow(
            at=None if observed.snapshot is None else observed.snapshot.wall,
            fresh=self._loop.observed.fresh(self._loop.clock().monotonic_s),
            window_s=0.0 if view is None else view.window_s,
            signals=tuple(Signal(name, values.get(name), meaning) for name, meaning in SIGNALS.items()),
            latencies=() if view is None else _latencies(view),
            ages_s={} if view is None else {source.value: age_s for source, age_s in view.ages_s.items()},
            problems={} if view is None else {source.value: why for source, why in view.problems.items()},
        )


def _latencies(view: View) -> tuple[LatencyNow, ...]:
    return tuple(
        LatencyNow(
            name=latency.value,
            samples=histogram.samples,
            mean_s=histogram.mean,
            p50_s=histogram.quantile(0.5),
            p95_s=histogram.quantile(0.95),
            p99_s=histogram.quantile(0.99),
        )
        for latency, histogram in view.latencies.items()
    )
