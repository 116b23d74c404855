"""GET /api/v1/receivers and POST /api/v1/receivers/{name}/test.

Belongs here: these calls. Never: sending. No secret is in what a receiver says of itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.models.alerts import ReceiverAsked, ReceiverOut, ReceiversOut, TriedOut, not_delivered
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.refusal import Kind

PATH = "/api/v1/receivers"


def receiver_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""
    alerts = operations.alerts

    async def show(_call: Call[None, None]) -> ReceiversOut:
        given_up = await alerts.not_delivered()
        return ReceiversOut(
            receivers=[ReceiverOut.model_validate(one) for one in alerts.receivers().values()],
            not_delivered=None if given_up is None else [not_delivered(one) for one in given_up],
        )

    async def test(call: Call[ReceiverAsked, None]) -> TriedOut:
        await alerts.test(call.who, call.asked.name)
        return TriedOut(receiver=call.asked.name, delivered=True)

    yield Route("GET", PATH, Access.READ, show, "how the receivers of alerts fare", ReceiversOut)
    yield Route(
        "POST",
        f"{PATH}/{{name}}/test",
        Access.ADMIN,
        test,
        "send a receiver an alert to try it out",
        TriedOut,
        ReceiverAsked,
        problems=(Kind.UNKNOWN, Kind.UNAVAILABLE),
    )
