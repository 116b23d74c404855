"""Long windows that only a Prometheus server remembers.

Belongs here: the answers as a value. Never: PromQL, HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Absence(StrEnum):
    """Why a query gave no number; none of these is 0."""

    NO_SERIES = "no series"
    NO_TRAFFIC = "no traffic"
    """The answer was NaN: a ratio or quantile of nothing."""
    REFUSED = "query refused"
    """HTTP 4xx or `status: error`: the query or the selector is wrong."""
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class LongWindows:
    """Over the last hour unless the name says otherwise. `why` names the absence of each value that is None."""

    requests_per_s_mean: float | None = None
    requests_per_s_peak: float | None = None
    """Highest one-minute mean."""
    e2e_p99_s: float | None = None
    requests_per_s_day_ratio: float | None = None
    """This hour's mean over that of the same hour yesterday."""
    e2e_p99_day_ratio: float | None = None
    why: Mapping[str, Absence] = field(default_factory=dict)
