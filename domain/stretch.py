"""What the signals were in one stretch of time, and several stretches made into one.

Belongs here: the value and its arithmetic. Never: where it is kept (store/readings.py), what a signal means
(domain/view.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

AS_READ_S, MINUTE_S, HOUR_S, DAY_S = 1, 60, 3600, 86_400
RESOLUTIONS_S = (AS_READ_S, MINUTE_S, HOUR_S)
"""The stretches that are kept, finest first. The first stands for a tick, however long that is."""
KNOB = "knob:"
"""Begins the name of a knob's value among the signals."""
DIGITS = 7
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reading:
    """The signals of the stretch that begins at `at`. What was not known has no entry."""

    at: datetime
    means: Mapping[str, float | None]
    """Signal to its mean over the samples that knew it; `knob:NAME` to the value last in force, None for no limit."""
    resolution_s: int = AS_READ_S
    samples: int = 1
    highs: Mapping[str, float] = field(default_factory=dict)
    """The highest of each signal that was not the same all the time."""
    run_id: int | None = None
    node: str = ""

    def high(self, signal: str) -> float | None:
        """The highest value; None where it was not known."""
        return self.highs.get(signal, self.means.get(signal))

    @property
    def knobs(self) -> Mapping[str, float | None]:
        """Knob to the value last in force; a knob that was not known is absent."""
        return {name.removeprefix(KNOB): value for name, value in self.means.items() if name.startswith(KNOB)}


def reading(
    at: datetime,
    signals: Iterable[tuple[str, float | None]],
    knobs: Mapping[str, float | None],
    run_id: int | None = None,
) -> Reading:
    """One tick's. Signals that are not known are left out; a knob without a limit is None, or infinite."""
    means: dict[str, float | None] = {
        name: rounded(value) for name, value in signals if value is not None and math.isfinite(value)
    }
    for name, value in knobs.items():
        means[KNOB + name] = value if value is not None and math.isfinite(value) else None
    return Reading(at, means, run_id=run_id)


def rounded(value: float) -> float:
    """To as many digits as a reading is worth: rows are a third smaller."""
    return float(f"{value:.{DIGITS}g}")


def begin(at: datetime, resolution_s: int) -> datetime:
    """When the stretch that holds `at` begins."""
    step = timedelta(seconds=resolution_s)
    return _EPOCH + (at - _EPOCH) // step * step


def merged(parts: Sequence[Reading], at: datetime, resolution_s: int) -> Reading:
    """One reading for several, which come in the order of time. Each weighs as many samples as it has; a signal that
    only some knew is the mean of those.
    """
    means: dict[str, float | None] = {}
    highs: dict[str, float] = {}
    for name in dict.fromkeys(name for part in parts for name in part.means):
        if name.startswith(KNOB):
            means[name] = next(part.means[name] for part in reversed(parts) if name in part.means)
            continue
        known = [(value, part.samples, part.highs) for part in parts if (value := part.means.get(name)) is not None]
        if known:
            weight = sum(samples for _, samples, _ in known)
            means[name] = mean = rounded(sum(value * samples for value, samples, _ in known) / weight)
            high = max(above.get(name, value) for value, _, above in known)
            if high != mean:
                highs[name] = high
    runs = [part.run_id for part in parts if part.run_id is not None]
    return Reading(
        at=at,
        means=means,
        resolution_s=resolution_s,
        samples=sum(part.samples for part in parts),
        highs=highs,
        run_id=runs[-1] if runs else None,
        node=parts[-1].node if parts else "",
    )
