"""GET /api/v1/history: signals and knobs over time, for charts.

Belongs here: this one resource. Never: how readings are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from controller import clock
from controller.api.models.past import SeriesAsked, SeriesOut
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.refusal import Kind

HOUR = timedelta(hours=1)


def history_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""

    async def show(call: Call[SeriesAsked, None]) -> SeriesOut:
        asked = call.asked
        until = asked.until or clock.now().wall
        since = asked.since or until - HOUR
        found = await operations.readings.series(since, until, asked.signal or None, asked.points, asked.node)
        return SeriesOut.model_validate(found)

    yield Route(
        "GET",
        "/api/v1/history",
        Access.READ,
        show,
        "signals and knobs over time",
        SeriesOut,
        SeriesAsked,
        problems=(Kind.INVALID, Kind.UNAVAILABLE),
    )
