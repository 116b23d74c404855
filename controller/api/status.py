"""GET /api/v1/status.

Belongs here: this one resource. Never: gathering the status (controller/operations/status.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from aiohttp import web

from controller import clock as system_clock
from controller.api.models.base import as_json
from controller.api.models.present import StatusOut
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations

KEPT_S = 0.1
"""One answer serves all who ask within so long, unless something happens meanwhile: every tick and every change is an
event. What else there is in it are ages.
"""


class Shown:
    """The status as it was written last."""

    def __init__(self, operations: Operations, clock: Callable[[], system_clock.Now]) -> None:
        self._operations = operations
        self._clock = clock
        self._of = ("", 0.0)
        self._text = b""

    async def show(self, _call: Call[None, None]) -> web.Response:
        """Answers it, written anew where it may be another by now."""
        last_id, now_s = self._operations.events.last_id, self._clock().monotonic_s
        event, at_s = self._of
        if event != last_id or now_s - at_s > KEPT_S:
            self._text = as_json(StatusOut.model_validate(self._operations.status()))
            self._of = (last_id, now_s)
        return web.Response(body=self._text, content_type="application/json")


def status_routes(operations: Operations, clock: Callable[[], system_clock.Now]) -> Iterator[Route]:
    """The rows of the table."""
    said = "how the daemon, its engine and its sources fare"
    yield Route("GET", "/api/v1/status", Access.READ, Shown(operations, clock).show, said, answer=StatusOut)
