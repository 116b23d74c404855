"""POST /api/v1/replay.

Belongs here: this one resource. Never: replaying (controller/history/replaying.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.models.past import ReplayOut, ReplayWanted
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.refusal import Kind


def replay_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table. It changes nothing, and costs minutes of computing: admin."""

    async def run(call: Call[None, ReplayWanted]) -> ReplayOut:
        return ReplayOut(dict(await operations.replays.run(call.body.since, call.body.tables)))

    yield Route(
        "POST",
        "/api/v1/replay",
        Access.ADMIN,
        run,
        "decide once more over what was recorded",
        ReplayOut,
        body=ReplayWanted,
        body_needed=False,
        problems=(Kind.INVALID, Kind.CONFLICT, Kind.UNAVAILABLE),
    )
