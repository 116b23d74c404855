"""The phases of the demonstration and how long each takes.

Belongs here: names, lengths, which daemon mode and objective. Never: running them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from domain.histogram import Histogram

MIN_DURATION_S = 40.0
DEFAULT_DURATION_S = 90.0
WARM_UP_S = 3.0
"""Left out at the start of a phase at least; where the governor moves a knob, everything up to its last move is."""
MAX_WARM_UP_SHARE = 0.6


class Phase(StrEnum):
    """What happens when; the value is shown."""

    BEFORE = "before"
    GOVERNED = "governed"
    AT_MAX = "slo: at max"
    SLO = "slo: governed"


@dataclass(frozen=True, slots=True)
class Step:
    """One phase. `length_s` None lasts until Ctrl-C."""

    phase: Phase
    length_s: float | None
    explanation: str


SHARES = {Phase.BEFORE: 0.16, Phase.GOVERNED: 0.40, Phase.AT_MAX: 0.12, Phase.SLO: 0.32}
EXPLANATIONS = {
    Phase.BEFORE: "the seeds' static batch: at most {static} requests run, whatever waits",
    Phase.GOVERNED: "the governor takes over: it grows the batch while requests wait and there is room",
    Phase.AT_MAX: "an inter-token objective is set and the batch stays at its start-up maximum: blind growth misses it",
    Phase.SLO: "the governor steers by the objective: it shrinks until the share over it is allowed",
}


WATCHING = {
    Phase.BEFORE: (0.3, "as it was found: the governor only observes"),
    Phase.GOVERNED: (0.7, "the governor takes over under the traffic that is there"),
}


def steps(duration_s: float, static: int, *, loaded: bool) -> tuple[Step, ...]:
    """The four phases over `duration_s` seconds; 0 gives the default lengths and a last phase without end.

    Without a load of our own there are two: an engine that serves somebody gets neither a static batch nor an
    objective made up for show.
    """
    shares = {phase: (share, EXPLANATIONS[phase].format(static=static)) for phase, share in SHARES.items()}
    plan = shares if loaded else WATCHING
    total_s = duration_s or DEFAULT_DURATION_S
    last = next(reversed(plan))
    return tuple(
        Step(phase, None if duration_s == 0 and phase is last else total_s * share, said)
        for phase, (share, said) in plan.items()
    )


def measured_from(start_s: float, end_s: float, last_change_s: float | None) -> float:
    """Where a phase's measurement begins: after the warm-up and the last change, but with a part always left."""
    settled_s = max(start_s + WARM_UP_S, (last_change_s or start_s) + 1.0)
    return min(settled_s, start_s + MAX_WARM_UP_SHARE * (end_s - start_s))


@dataclass(frozen=True, slots=True)
class Objective:
    """`percentile` percent of the tokens come within `bound_s` seconds of the one before."""

    percentile: float
    bound_s: float


PERCENTILES = (90.0, 80.0, 70.0, 60.0)
TOWARDS_LARGE = 2 / 3
"""How far the bound lies from the small batch's latency to the large one's, on a logarithmic scale: past the middle, so
that there is something to find between the two batches."""


def objective(small: Histogram, large: Histogram) -> Objective | None:
    """An objective that the small batch keeps and the large one misses; None when they do not differ enough.

    The bound is a bucket bound (there the share of samples above it is exact) between what the small batch needs at the
    percentile and the large one's median. The strictest percentile that leaves such a bound is taken: on a machine
    whose two cores are shared with the load, the tail of the small batch is the machine's, not the batch's.
    """
    large_s = large.quantile(0.5)
    for percentile in PERCENTILES:
        small_s = small.quantile(percentile / 100)
        if small_s is None or large_s is None:
            return None
        between = [bound for bound in small.bounds if small_s < bound < large_s]
        if between:
            aim_s = small_s * (large_s / small_s) ** TOWARDS_LARGE
            return Objective(percentile, min(between, key=lambda bound: abs(bound - aim_s)))
    return None
