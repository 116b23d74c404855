"""GET, PUT and DELETE /api/v1/mode.

Belongs here: these calls. Never: what a mode does.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.models.steering import ModeOut, ModeWanted
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.refusal import Kind

PATH = "/api/v1/mode"


def mode_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""
    mode = operations.mode

    async def show(_call: Call[None, None]) -> ModeOut:
        return ModeOut.model_validate(mode.now())

    async def switch(call: Call[None, ModeWanted]) -> ModeOut:
        return ModeOut.model_validate(await mode.set(call.who, call.body.mode, call.body.comment))

    async def reset(call: Call[None, None]) -> ModeOut:
        return ModeOut.model_validate(await mode.reset(call.who))

    refusals = (Kind.INVALID, Kind.CONFLICT, Kind.UNAVAILABLE)
    yield Route("GET", PATH, Access.READ, show, "the mode, and what stands over it", ModeOut)
    yield Route("PUT", PATH, Access.ADMIN, switch, "switch the mode", ModeOut, body=ModeWanted, problems=refusals)
    yield Route("DELETE", PATH, Access.ADMIN, reset, "back to the file's mode", ModeOut, problems=refusals)
