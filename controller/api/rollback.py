"""GET and POST /api/v1/rollback, and POST /api/v1/undo.

Belongs here: these calls. Never: what a rollback is (controller/acting/rollback.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.models.steering import Remark, RollbackOut
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.refusal import Kind

PATH = "/api/v1/rollback"


def rollback_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""
    rollback = operations.rollback

    async def show(_call: Call[None, None]) -> RollbackOut:
        return RollbackOut.model_validate(rollback.now())

    async def enter(call: Call[None, Remark]) -> RollbackOut:
        return RollbackOut.model_validate(await rollback.enter(call.who, call.body.comment))

    async def undo(call: Call[None, Remark]) -> RollbackOut:
        return RollbackOut.model_validate(await rollback.undo(call.who, call.body.comment))

    yield Route("GET", PATH, Access.READ, show, "the rollback, and what a call would do", RollbackOut)
    for path, handler, said in (
        (PATH, enter, "static batch, small budget, bounded queue"),
        ("/api/v1/undo", undo, "what was in force before the rollback"),
    ):
        yield Route(
            "POST",
            path,
            Access.ADMIN,
            handler,
            said,
            RollbackOut,
            body=Remark,
            body_needed=False,
            problems=(Kind.CONFLICT, Kind.UNAVAILABLE),
        )
