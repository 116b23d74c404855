"""GET /api/v1/signals.

Belongs here: this one resource. Never: what a signal is (domain/view.py), what it was (history.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.models.present import SignalsOut
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations


def signal_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""

    async def show(_call: Call[None, None]) -> SignalsOut:
        return SignalsOut.model_validate(operations.signals.now())

    yield Route("GET", "/api/v1/signals", Access.READ, show, "every signal with its meaning", answer=SignalsOut)
