"""GET /api/v1/cost, for a period or for each setting in it.

Belongs here: these calls. Never: formulas (domain/cost.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from controller import clock
from controller.api.models.decisions import SpanAsked
from controller.api.models.past import ColumnOut, CostOut, SettingsCostAsked, SettingsCostOut
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.refusal import Kind

DAY = timedelta(days=1)


def cost_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""
    cost = operations.cost

    async def period(call: Call[SpanAsked, None]) -> CostOut:
        until = call.asked.until or clock.now().wall
        column = await cost.period(call.asked.since or until - DAY, until, call.asked.node)
        return CostOut(currency=cost.tariff().currency, column=ColumnOut.model_validate(column))

    async def settings(call: Call[SettingsCostAsked, None]) -> SettingsCostOut:
        asked = call.asked
        until = asked.until or clock.now().wall
        columns = await cost.by_setting(asked.since or until - DAY, until, asked.knob, asked.node)
        return SettingsCostOut(
            currency=cost.tariff().currency, columns=[ColumnOut.model_validate(one) for one in columns]
        )

    bad = (Kind.INVALID, Kind.UNAVAILABLE)
    yield Route("GET", "/api/v1/cost", Access.READ, period, "what a period cost", CostOut, SpanAsked, problems=bad)
    yield Route(
        "GET",
        "/api/v1/cost/settings",
        Access.READ,
        settings,
        "what each of the longest settings cost",
        SettingsCostOut,
        SettingsCostAsked,
        problems=bad,
    )
