"""Signals and knobs over time, cost, replay.

Belongs here: those models. Never: reading the history.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AwareDatetime, Field, RootModel

from controller.api.models.base import DIGITS, Answer, Body, Moment, Name, Value
from controller.api.models.decisions import SpanAsked
from controller.operations.readings import DEFAULT_POINTS, MOST_POINTS


class SeriesAsked(SpanAsked):
    """Which signals; all without `signal`. At most `points` of them, or a few more."""

    signal: Annotated[list[Name], Field(max_length=64, default_factory=list)]
    points: Annotated[int, Field(ge=1, le=MOST_POINTS), DIGITS] = DEFAULT_POINTS


class SeriesOut(Answer):
    """Columns of one length; null: not known at that point."""

    since: AwareDatetime
    until: AwareDatetime
    at: list[AwareDatetime]
    """When each point begins."""
    seconds: list[int]
    """How long each is; 1 stands for a tick."""
    means: dict[str, list[float | None]]
    highs: dict[str, list[float | None]]
    knobs: dict[str, list[Value | None]]


class FigureOut(Answer):
    """A number, or why there is none."""

    value: float | None
    why: str | None


class FiguresOut(Answer):
    """docs/cost.md has each with its formula."""

    measured_s: float
    gap_s: float
    coverage_ratio: FigureOut
    energy_coverage_ratio: FigureOut
    energy_source: str | None
    memory_gb: FigureOut
    gpu_hours: FigureOut
    energy_cost: FigureOut
    gpu_cost: FigureOut
    network_cost: FigureOut
    total_cost: FigureOut
    cost_per_100k_requests: FigureOut
    cost_per_1k_requests: FigureOut
    cost_per_million_generated: FigureOut
    cost_per_million_tokens: FigureOut
    energy_kwh: FigureOut
    idle_kwh: FigureOut
    network_gb: FigureOut
    requests: FigureOut
    prompt_tokens: FigureOut
    generation_tokens: FigureOut
    joules_per_token: FigureOut
    requests_per_joule: FigureOut
    reuse_ratio: FigureOut


class ColumnOut(Answer):
    """One period, or one setting in it."""

    since: AwareDatetime
    until: AwareDatetime
    setting: dict[str, Value | None] | None
    """The knobs that tell this column from the others; null: all settings."""
    figures: FiguresOut
    resolution_s: int
    """Of the coarsest entry."""
    notes: list[str]


class CostOut(Answer):
    """All settings together."""

    currency: str
    column: ColumnOut


class SettingsCostOut(Answer):
    """Each of the longest settings."""

    currency: str
    columns: list[ColumnOut]


class SettingsCostAsked(SpanAsked):
    """Settings told apart by these knobs; by all without `knob`."""

    knob: Annotated[list[Name], Field(max_length=16, default_factory=list)]


class ReplayWanted(Body):
    """What to decide once more, and with which settings."""

    since: Moment | None = None
    tables: dict[str, dict[str, Any]] | None = None
    """`policies` and `guards` to try, as in the file of `vllm-governor replay --policy`; null: the recorded ones."""


class ReplayOut(RootModel[dict[str, Any]]):
    """The document of `vllm-governor replay --json`."""
