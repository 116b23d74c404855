"""A scenario as a value: phases of load, objectives and speed of the device, inside one envelope.

Belongs here: what a phase is and the questions asked of a whole. Never: a certain scenario (scenarios.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.compare.workload import Stream, asks
from bench.virtual.workload import Ask
from domain.slo import Latency, Slo

DRAIN_S = 30.0
"""Nobody asks any more, so that the last requests can be answered."""
SETTLE_S = 30.0
"""`goodput_after_30s` leaves out what came before."""


@dataclass(frozen=True, slots=True)
class Objectives:
    """What each request is to keep: time to first token, and 95 % of the times between its tokens."""

    itl_s: float
    ttft_s: float = 2.0

    def slos(self) -> tuple[Slo, ...]:
        """The same, as the daemon is told it."""
        return (Slo(Latency.TTFT, 95.0, self.ttft_s), Slo(Latency.ITL, 95.0, self.itl_s))


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch without change. Rates are for an A100-80G; `Scenario.phases_on` fits them to others."""

    name: str
    seconds: float
    streams: tuple[Stream, ...]
    objectives: Objectives
    speed: float = 1.0
    """Share of its speed that the device runs at."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`what` says it in one line for the report."""

    name: str
    what: str
    phases: tuple[Phase, ...]
    max_num_seqs: int = 128
    max_num_batched_tokens: int = 8192
    max_model_len: int = 16384

    @property
    def seconds(self) -> float:
        """Of load, all phases together."""
        return sum(phase.seconds for phase in self.phases)

    def begins(self) -> Iterator[tuple[float, Phase]]:
        """Each phase with its first second."""
        at_s = 0.0
        for phase in self.phases:
            yield at_s, phase
            at_s += phase.seconds

    def at(self, at_s: float) -> Phase:
        """The phase of that second; the last one from its beginning on."""
        return [phase for begin_s, phase in self.begins() if begin_s <= at_s][-1]

    def asks(self, seed: int) -> Iterator[Ask]:
        """The load of this seed."""
        return asks([(phase.seconds, phase.streams) for phase in self.phases], seed, self.max_model_len - 1)

    def all_slos(self) -> tuple[Slo, ...]:
        """Of all phases, each once."""
        return tuple(dict.fromkeys(slo for phase in self.phases for slo in phase.objectives.slos()))
