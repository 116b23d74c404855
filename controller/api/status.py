"""GET /api/v1/status.

Belongs here: this one resource. Never: gathering the status (controller/operations/status.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.models.present import StatusOut
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations


def status_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""

    async def show(_call: Call[None, None]) -> StatusOut:
        return StatusOut.model_validate(operations.status())

    yield Route(
        "GET", "/api/v1/status", Access.READ, show, "how the daemon, its engine and its sources fare", answer=StatusOut
    )
