"""One tick's readings, taken once and never changed. Unknown is None, never 0.

Belongs here: which sources there are and what each said. Never: rates or windows (the estimator makes those into a
View).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from domain.readings.engine import EngineStats
from domain.readings.gpu import GpusReading
from domain.readings.prometheus import LongWindows
from domain.readings.vllm import VllmReading
from domain.runtime import EngineRuntime


class Source(StrEnum):
    """Where readings come from; each is fresh, stale or absent on its own."""

    METRICS = "metrics"
    RUNTIME = "runtime"
    STATS = "stats"
    GPU = "gpu"
    PROMETHEUS = "prometheus"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All readings of one tick; None where a source gave none in this tick. `now_s` is monotonic, `wall` for people."""

    now_s: float
    wall: datetime
    vllm: VllmReading | None = None
    runtime: EngineRuntime | None = None
    engine: EngineStats | None = None
    gpus: GpusReading | None = None
    prometheus: LongWindows | None = None
    problems: Mapping[Source, str] = field(default_factory=dict)
    """Why a source gave nothing, as a sentence for people; absent for one that is well or is not set up."""
    silent: frozenset[Source] = frozenset()
    """Those of them that gave no answer at all: refused, lost, too late."""
    took_s: float = 0.0
    """How long the reading took: one source that does not answer makes the tick longer for all."""

    @property
    def readings(self) -> Mapping[Source, object | None]:
        """What each source gave, None for nothing."""
        return {
            Source.METRICS: self.vllm,
            Source.RUNTIME: self.runtime,
            Source.STATS: self.engine,
            Source.GPU: self.gpus,
            Source.PROMETHEUS: self.prometheus,
        }
