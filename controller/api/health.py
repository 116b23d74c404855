"""GET /healthz and /readyz.

Belongs here: these two. Never: what is wrong in detail (status.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from controller import __version__
from controller.api.models.present import HealthOut, ReadyOut
from controller.api.problem import Problem
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.refusal import Kind


def health_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""

    async def alive(_call: Call[None, None]) -> HealthOut:
        return HealthOut(version=__version__)

    async def ready(_call: Call[None, None]) -> ReadyOut:
        ticks = operations.status().ticks
        if not ticks.fresh:
            since = "" if ticks.succeeded_at is None else f" since {ticks.succeeded_at:%Y-%m-%d %H:%M:%S} UTC"
            reason = f"no tick has succeeded{since or ' yet'}"
            raise Problem(503, "call the daemon ready", reason, "wait for the first tick, or see its log")
        return ReadyOut(ticks=ticks.ticks, succeeded_at=ticks.succeeded_at)

    yield Route("GET", "/healthz", Access.OPEN, alive, "the process answers", HealthOut)
    yield Route("GET", "/readyz", Access.OPEN, ready, "the loop turns", ReadyOut, problems=(Kind.UNAVAILABLE,))
