"""How things are now: status, signals, health.

Belongs here: those models. Never: what was before.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime

from controller.api.models.base import Answer, Evidence, Numbers
from controller.api.models.knobs import OverrideOut
from controller.api.models.steering import ModeOut, RollbackStateOut
from domain.diagnosis import Cause


class CoreOut(Answer):
    """One engine core."""

    index: int
    running: int
    waiting: int
    draining: bool
    lease_remaining_s: float | None
    degraded: list[str]
    """The parts of the plugin that switched themselves off, each with its reason."""


class EngineOut(Answer):
    """What is known of the engine; all but `url` and `answers` is null or empty while it does not answer."""

    url: str
    answers: bool
    boot_id: str | None
    generation: int | None
    vllm_version: str | None
    plugin_version: str | None
    cores: list[CoreOut]
    held_by: str | None
    """The other daemon that steers this engine: this one only observes."""


class SourceOut(Answer):
    """One source of readings."""

    name: str
    age_s: float | None
    """Since it last gave a reading; null: never."""
    problem: str | None


class HistoryStatusOut(Answer):
    """How the writing of the history fares."""

    where: str
    pending: int
    dropped: int
    oldest_wait_s: float
    problem: str | None
    set_aside: str | None
    file_bytes: int | None
    wal_bytes: int | None


class ObjectiveOut(Answer):
    """One objective in force, and how it is kept."""

    latency: str
    percentile: float
    bound_s: float
    proposed: bool
    over_ratio: float | None
    """Share of samples above the bound in the window."""
    allowed_ratio: float
    samples: float


class TicksOut(Answer):
    """The loop's pace."""

    tick_s: float
    ticks: int
    failed: int
    succeeded_at: AwareDatetime | None
    fresh: bool
    """False: the picture is old, the loop stands still."""


class DiagnosisOut(Answer):
    """What is found wrong with the engine; docs/troubleshooting.md has each cause."""

    cause: Cause
    sentence: str
    evidence: Evidence
    action: str | None
    """What is being done, or what a person should do."""


class ProblemOut(Answer):
    """`what` names it in a word; reason and remedy are clauses."""

    what: str
    reason: str
    remedy: str


class StatusOut(Answer):
    """How the daemon, its engine and its sources fare now."""

    version: str
    node: str
    started_at: AwareDatetime
    at: AwareDatetime | None
    """When the last tick began; null: there was none yet."""
    mode: ModeOut
    engine: EngineOut
    rollback: RollbackStateOut | None
    overrides: list[OverrideOut]
    ticks: TicksOut
    sources: list[SourceOut]
    history: HistoryStatusOut
    objectives: list[ObjectiveOut]
    diagnoses: list[DiagnosisOut]
    problems: list[ProblemOut]
    """Worst first; empty: all is well."""
    gpus: list[str]
    """Names of the engine's GPUs."""
    signals: Numbers
    """Every signal by name."""


class SignalOut(Answer):
    """A signal now."""

    name: str
    value: float | None
    meaning: str


class LatencyOut(Answer):
    """One of vLLM's latencies over the window; a quantile is null without samples."""

    name: str
    samples: float
    mean_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None


class SignalsOut(Answer):
    """Those of the last tick that could read anything."""

    at: AwareDatetime | None
    fresh: bool
    window_s: float
    signals: list[SignalOut]
    latencies: list[LatencyOut]
    ages_s: dict[str, float]
    """Seconds since each source last gave a reading."""
    problems: dict[str, str]
    """Why a source gives nothing now."""


class HealthOut(Answer):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str


class ReadyOut(Answer):
    """The loop turns."""

    status: Literal["ready"] = "ready"
    ticks: int
    succeeded_at: AwareDatetime | None
