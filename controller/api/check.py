"""GET and POST /api/v1/check.

Belongs here: this one resource. Never: a check (controller/preflight), when the daemon runs them by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.models.check import CheckOut, ResultOut
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.check import Standing
from controller.operations.refusal import Kind
from controller.preflight.result import UNKNOWN

PATH = "/api/v1/check"


def check_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""
    checks = operations.checks

    async def show(_call: Call[None, None]) -> CheckOut:
        return _out(checks.last)

    async def run(call: Call[None, None]) -> CheckOut:
        return _out(await checks.run(call.who))

    yield Route("GET", PATH, Access.READ, show, "what the checks came to at their last run", CheckOut)
    yield Route("POST", PATH, Access.ADMIN, run, "run the checks now", CheckOut, problems=(Kind.UNAVAILABLE,))


def _out(standing: Standing) -> CheckOut:
    report = standing.report
    if report is None:
        return CheckOut(at=None, state=UNKNOWN, worse=[], results=[])
    results = [ResultOut.model_validate(one) for one in report.results]
    return CheckOut(at=report.at, state=report.state, worse=list(standing.worse), results=results)
