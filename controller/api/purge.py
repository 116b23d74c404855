"""GET and POST /api/v1/purge.

Belongs here: these calls. Never: what a purge does.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.models.decisions import decision
from controller.api.models.steering import PurgeAsked, PurgedOut, PurgePlanOut, PurgeWanted
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.refusal import Kind

PATH = "/api/v1/purge"


def purge_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""
    purge = operations.purge

    async def plan(call: Call[PurgeAsked, None]) -> PurgePlanOut:
        return PurgePlanOut.model_validate(purge.plan(call.asked.ratio, call.asked.preempt))

    async def run(call: Call[None, PurgeWanted]) -> PurgedOut:
        body = call.body
        done = await purge.run(call.who, body.ratio, body.preempt, body.comment)
        return PurgedOut(sentence=done.sentence, decisions=[decision(one) for one in done.decisions])

    refusals = (Kind.INVALID, Kind.CONFLICT, Kind.UNAVAILABLE)
    yield Route(
        "GET", PATH, Access.READ, plan, "what a purge would do", PurgePlanOut, PurgeAsked, problems=(Kind.INVALID,)
    )
    yield Route(
        "POST",
        PATH,
        Access.ADMIN,
        run,
        "evict free cached blocks",
        PurgedOut,
        body=PurgeWanted,
        body_needed=False,
        problems=refusals,
    )
