"""GET and POST /api/v1/alerts: what fires here, and what an Alertmanager says that fires there.

Belongs here: these two calls. Never: rules, what an alert from outside sets off (controller/alerting/wishes.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.models.alerts import AlertsOut, TakenOut, WebhookIn, alert, picked
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations

PATH = "/api/v1/alerts"
MOST_BYTES = 1024 * 1024
"""Of one webhook: some milliseconds of reading. Alertmanager's `max_alerts` keeps it shorter."""


def alert_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""
    alerts = operations.alerts

    async def show(_call: Call[None, None]) -> AlertsOut:
        return AlertsOut(alerts=[alert(one) for one in alerts.now()], external_firing=alerts.external_firing)

    async def take(call: Call[None, WebhookIn]) -> TakenOut:
        taken = await alerts.take(call.who, (one.posted() for one in call.body.alerts))
        return TakenOut(received=len(call.body.alerts), picked=[picked(one) for one in taken])

    yield Route("GET", PATH, Access.READ, show, "alerts that are pending or firing", AlertsOut)
    yield Route(
        "POST",
        PATH,
        Access.ADMIN,
        take,
        "take an Alertmanager's webhook (version 4)",
        TakenOut,
        body=WebhookIn,
        most_bytes=MOST_BYTES,
    )
