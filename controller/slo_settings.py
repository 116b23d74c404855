"""The tables of objectives, of their timetable and of maintenance.

Belongs here: names, bounds, defaults. Never: which of them is in force (controller/objectives/timetable.py).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, model_validator

from controller.objectives.cron import Cron
from controller.settings_table import Table
from domain.slo import Latency, Slo
from policies.objectives import ProposalSettings


def _readable(expression: str) -> str:
    Cron(expression, UTC)
    return expression


def _known_zone(name: str | None) -> str | None:
    if name is not None:
        try:
            ZoneInfo(name)
        except (KeyError, OSError, ValueError) as error:
            raise ValueError("must be a time zone that this machine knows, as Europe/Berlin") from error
    return name


CronExpression = Annotated[str, AfterValidator(_readable)]
"""Five fields as in crontab(5)."""
TimeZoneName = Annotated[str | None, AfterValidator(_known_zone)]
"""An IANA name; None: the machine's."""
Name = Annotated[str, Field(min_length=1, max_length=40)]


class SloSettings(Table):
    """One objective: `percentile` percent of the samples lie at or under `bound_s` seconds."""

    percentile: Annotated[float, Field(gt=0, lt=100)] = 95.0
    bound_s: Annotated[float, Field(gt=0)]


class ObjectiveTables(Table):
    """Any of the three; none is needed."""

    time_to_first_token: SloSettings | None = None
    inter_token_latency: SloSettings | None = None
    e2e_request_latency: SloSettings | None = None

    def objectives(self) -> tuple[Slo, ...]:
        """Those that are set."""
        by_latency = {
            Latency.TTFT: self.time_to_first_token,
            Latency.ITL: self.inter_token_latency,
            Latency.E2E: self.e2e_request_latency,
        }
        return tuple(Slo(latency, s.percentile, s.bound_s) for latency, s in by_latency.items() if s is not None)


class ScheduleEntry(ObjectiveTables):
    """From each moment of `cron` on these objectives hold, in place of all others, until another entry's moment."""

    name: Name
    cron: CronExpression


class SlosSettings(ObjectiveTables):
    """`[slo]`: the objectives that hold where no entry of the schedule does."""

    schedule: tuple[ScheduleEntry, ...] = ()
    propose: ProposalSettings = Field(default_factory=ProposalSettings)

    @property
    def configured(self) -> bool:
        """Whether an operator said anything of objectives; if so none is proposed."""
        return bool(self.schedule or self.objectives())

    def every(self) -> tuple[Slo, ...]:
        """Every objective that may come to be in force."""
        return (*self.objectives(), *(slo for entry in self.schedule for slo in entry.objectives()))

    @model_validator(mode="after")
    def _names_differ(self) -> SlosSettings:
        names = [entry.name for entry in self.schedule]
        if len(set(names)) != len(names):
            raise ValueError(f"must give every entry of the schedule a name of its own, not {', '.join(names)}")
        return self


class MaintenanceSettings(Table):
    """One window in which nothing is changed: `duration_s` from each moment of `cron` on, or once `begin` to `end`.

    A time without an offset is one of `time_zone`.
    """

    name: Name = "maintenance"
    cron: CronExpression | None = None
    duration_s: Annotated[float, Field(ge=60, le=7 * 24 * 3600)] | None = None
    begin: datetime | None = None
    end: datetime | None = None

    @model_validator(mode="after")
    def _either(self) -> MaintenanceSettings:
        given = tuple(one is not None for one in (self.cron, self.duration_s, self.begin, self.end))
        if given not in ((True, True, False, False), (False, False, True, True)):
            raise ValueError("must have either cron and duration_s, or begin and end")
        if self.begin is not None and self.end is not None:
            if (self.begin.tzinfo is None) != (self.end.tzinfo is None):
                raise ValueError("must give begin and end both an offset or neither")
            if self.end <= self.begin:
                raise ValueError(f"must have end after begin, not {self.begin} to {self.end}")
        return self
