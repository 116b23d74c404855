"""How the daemon, its engine and its sources fare now.

Belongs here: one picture of the present. Never: what was before (readings.py, decisions.py), changing anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from controller import __version__
from controller.engine import holder
from controller.loop import Loop
from controller.operations.changes import RunTime
from controller.operations.knobs import Knobs, OverrideState
from controller.operations.mode import ModeState, ModeSwitch
from controller.operations.problems import Problem, problems
from controller.operations.rollback import RollbackState, RollbackSwitch
from domain.diagnosis import Diagnosis
from domain.slo import Slo
from domain.view import View
from store.writer import WriterState


@dataclass(frozen=True, slots=True)
class CoreStatus:
    """One engine core."""

    index: int
    running: int
    waiting: int
    draining: bool
    lease_remaining_s: float | None
    degraded: tuple[str, ...]
    """The parts of the plugin that switched themselves off, each with its reason."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """What is known of the engine; all but `url` and `answers` is None or empty while it does not answer."""

    url: str
    answers: bool
    boot_id: str | None
    generation: int | None
    vllm_version: str | None
    plugin_version: str | None
    cores: tuple[CoreStatus, ...]
    held_by: str | None
    """The other daemon that steers this engine: this one only observes."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """One source of readings."""

    name: str
    age_s: float | None
    """Since it last gave a reading; None: never."""
    problem: str | None


@dataclass(frozen=True, slots=True)
class HistoryStatus:
    """How the writing of the history fares."""

    where: str
    pending: int
    dropped: int
    oldest_wait_s: float
    problem: str | None
    set_aside: str | None
    file_bytes: int | None
    wal_bytes: int | None


@dataclass(frozen=True, slots=True)
class ObjectiveStatus:
    """One objective in force, and how it is kept."""

    latency: str
    percentile: float
    bound_s: float
    proposed: bool
    over_ratio: float | None
    """Share of samples above the bound in the window."""
    allowed_ratio: float
    samples: float


@dataclass(frozen=True, slots=True)
class TickStatus:
    """The loop's pace."""

    tick_s: float
    ticks: int
    failed: int
    succeeded_at: datetime | None
    fresh: bool
    """False: the picture is old, the loop stands still."""


@dataclass(frozen=True, slots=True)
class Status:
    """The whole of it."""

    version: str
    node: str
    started_at: datetime
    at: datetime | None
    """When the last tick began; None: there was none yet."""
    mode: ModeState
    engine: EngineStatus
    rollback: RollbackState | None
    overrides: tuple[OverrideState, ...]
    ticks: TickStatus
    sources: tuple[SourceStatus, ...]
    history: HistoryStatus
    objectives: tuple[ObjectiveStatus, ...]
    diagnoses: tuple[Diagnosis, ...]
    problems: tuple[Problem, ...]
    """Worst first; empty: all is well."""
    gpus: tuple[str, ...]
    """Names of the engine's GPUs."""
    signals: Mapping[str, float | None]
    """Every signal by name; None: not known."""


class Present:
    """Reads the loop and its neighbours. One for the daemon's life."""

    def __init__(self, loop: Loop, knobs: Knobs, mode: ModeSwitch, rollback: RollbackSwitch, run_time: RunTime) -> None:
        self._loop = loop
        self._knobs = knobs
        self._mode = mode
        self._rollback = rollback
        self._run_time = run_time
        self._started_at = loop.clock().wall

    def status(self, where: str, reload_failure: str | None) -> Status:
        """The whole of it. `where` the history is; `reload_failure`: why the last reload was refused."""
        observed, view = self._loop.observed, self._loop.observed.view
        return Status(
            version=__version__,
            node=self._loop.settings.node,
            started_at=self._started_at,
            at=None if observed.snapshot is None else observed.snapshot.wall,
            mode=self._mode.now(),
            engine=self._engine(),
            rollback=self._rollback.state(),
            overrides=self._knobs.overrides(),
            ticks=TickStatus(
                tick_s=self._loop.settings.tick_s,
                ticks=observed.ticks,
                failed=observed.failed_ticks,
                succeeded_at=observed.succeeded_at,
                fresh=self._loop.observed.fresh(self._loop.clock().monotonic_s),
            ),
            sources=() if view is None else _sources(view, self._loop.clock().monotonic_s),
            history=_history(observed.history or WriterState(), where),
            objectives=() if view is None else tuple(_objective(view, slo) for slo in view.slos),
            diagnoses=tuple(observed.diagnoses),
            problems=problems(self._loop, self._run_time, reload_failure),
            gpus=() if view is None else view.gpu_names,
            signals={} if view is None else dict(view.signals()),
        )

    def _engine(self) -> EngineStatus:
        runtime, url, held_by = self._loop.observed.runtime, self._loop.settings.engine.url, self._loop.held_by
        other = None if held_by is None else holder.shown(held_by)
        if runtime is None:
            return EngineStatus(url, False, None, None, None, None, (), other)
        cores = tuple(
            CoreStatus(c.index, c.running, c.waiting, c.draining, c.lease_remaining_s, c.degraded)
            for c in runtime.cores
        )
        versions = runtime.vllm_version, runtime.plugin_version
        return EngineStatus(url, True, runtime.boot_id, runtime.generation, *versions, cores, other)


def _sources(view: View, now_s: float) -> tuple[SourceStatus, ...]:
    since_s = now_s - view.now_s
    names = dict.fromkeys((*view.ages_s, *view.problems))
    ages = {source: age_s + since_s for source, age_s in view.ages_s.items()}
    return tuple(SourceStatus(source.value, ages.get(source), view.problems.get(source)) for source in names)


def _history(state: WriterState, where: str) -> HistoryStatus:
    return HistoryStatus(
        where=where,
        pending=state.pending,
        dropped=state.dropped,
        oldest_wait_s=state.oldest_wait_s,
        problem=state.problem,
        set_aside=None if state.set_aside is None else str(state.set_aside),
        file_bytes=state.file_bytes,
        wal_bytes=state.wal_bytes,
    )


def _objective(view: View, slo: Slo) -> ObjectiveStatus:
    return ObjectiveStatus(
        latency=slo.latency.value,
        percentile=slo.percentile,
        bound_s=slo.bound_s,
        proposed=slo.proposed,
        over_ratio=view.over_ratio(slo),
        allowed_ratio=slo.allowed_ratio,
        samples=view.samples(slo.latency),
    )
