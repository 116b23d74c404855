"""Which rate is offered for how long, and what ends the test: the seeds' two phases as values.

Belongs here: the steps in their order, the limits. Never: sending, measuring.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

BASELINE, LIMIT = "baseline", "limit"
"""The seeds' first phase, fixed stages; and the second, which rises until a limit is met."""


ERRORS, P99, MEMORY = "error rate", "P99 latency", "out of memory"
"""The seeds' limits, as the beginning of why a test ended."""
LATE, BLIND, HIGHEST, STOPPED = "load generator late", "memory unknown", "highest rate", "interrupted"
"""What else ends it: none of these says what the server bears."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rate, held."""

    phase: str
    qps: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The seeds' numbers are the defaults: 10, 30, 50 QPS for 15 minutes each, then 20 QPS more every minute."""

    stages_qps: tuple[float, ...] = (10.0, 30.0, 50.0)
    stage_s: float = 900.0
    step_qps: float = 20.0
    step_s: float = 60.0
    max_qps: float = 1000.0
    """No higher rate is offered, whatever the server bears."""

    def steps(self) -> Iterator[Step]:
        """In their order. The second phase begins one step above the last stage."""
        for qps in self.stages_qps:
            yield Step(BASELINE, qps, self.stage_s)
        qps = self.stages_qps[-1] + self.step_qps
        while qps <= self.max_qps:
            yield Step(LIMIT, qps, self.step_s)
            qps += self.step_qps


@dataclass(frozen=True, slots=True)
class Limits:
    """The seeds' three. `p99_s` is end to end, from when a request was due; memory's is memory.py's."""

    error_ratio: float = 0.01
    p99_s: float = 3.0
