"""GET, POST and DELETE /api/v1/silences.

Belongs here: these calls. Never: what a silence does.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.models.alerts import EndedOut, SilenceAsked, SilenceOut, SilencesOut, SilenceWanted, silence
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.refusal import Kind

PATH = "/api/v1/silences"


def silence_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""
    alerts = operations.alerts

    async def show(_call: Call[None, None]) -> SilencesOut:
        return SilencesOut(silences=[silence(one) for one in alerts.silences()])

    async def add(call: Call[None, SilenceWanted]) -> SilenceOut:
        body = call.body
        return silence(await alerts.silence(call.who, body.matchers, body.seconds, body.comment, body.created_by))

    async def end(call: Call[SilenceAsked, None]) -> EndedOut:
        await alerts.unsilence(call.who, call.asked.id)
        return EndedOut(id=call.asked.id, ended=True)

    yield Route("GET", PATH, Access.READ, show, "silences that count", SilencesOut)
    yield Route(
        "POST",
        PATH,
        Access.ADMIN,
        add,
        "tell nobody of some alerts for a time",
        SilenceOut,
        body=SilenceWanted,
        problems=(Kind.INVALID, Kind.CONFLICT, Kind.UNAVAILABLE),
    )
    yield Route(
        "DELETE",
        f"{PATH}/{{id}}",
        Access.ADMIN,
        end,
        "end a silence",
        EndedOut,
        SilenceAsked,
        problems=(Kind.UNKNOWN, Kind.UNAVAILABLE),
    )
