"""GET and PATCH /api/v1/knobs, and the end of an override.

Belongs here: these calls, a limit that is off as its word, If-Match. Never: what an override is
(controller/operations/knobs.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controller.api.conditional import wanted
from controller.api.models.base import Named
from controller.api.models.decisions import decision
from controller.api.models.knobs import KnobOut, KnobsOut, OverriddenOut, Override
from controller.api.routes import Access, Call, Reply, Route
from controller.operations.application import Operations
from controller.operations.knobs import Knobs, KnobsNow
from controller.operations.plain import NO_LIMIT_WORD
from controller.operations.refusal import Kind
from domain.knobs import NO_LIMIT

PATH = "/api/v1/knobs"


class _Calls:
    """What the rows of the table do."""

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs

    async def show(self, _call: Call[None, None]) -> Reply:
        return _reply(self._knobs.now())

    async def one(self, call: Call[Named, None]) -> KnobOut:
        return KnobOut.model_validate(self._knobs.one(call.asked.name))

    async def override(self, call: Call[None, Override]) -> Reply:
        body = call.body
        values = {name: NO_LIMIT if value == NO_LIMIT_WORD else float(value) for name, value in body.values.items()}
        done = await self._knobs.set(call.who, values, body.ttl_s, body.comment, self._version(call))
        decisions = {name: decision(made) for name, made in done.decisions.items()}
        out = OverriddenOut(decisions=decisions, now=KnobsOut.model_validate(done.now))
        return Reply(out, done.now.version)

    async def lift(self, call: Call[Named, None]) -> Reply:
        return _reply(await self._knobs.lift(call.who, call.asked.name, self._version(call)))

    def _version(self, call: Call[Any, Any]) -> str | None:
        return wanted(call.request.headers.get("If-Match"), self._knobs.now().version)


def knob_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""
    calls = _Calls(operations.knobs)
    said = "every knob, its bounds and overrides"
    yield Route("GET", PATH, Access.READ, calls.show, said, KnobsOut, versioned=True)
    there = (Kind.UNKNOWN, Kind.UNAVAILABLE)
    yield Route("GET", f"{PATH}/{{name}}", Access.READ, calls.one, "one knob", KnobOut, Named, problems=there)
    refusals = (*there, Kind.INVALID, Kind.CONFLICT, Kind.STALE)
    yield Route(
        "PATCH",
        PATH,
        Access.ADMIN,
        calls.override,
        "override knobs for a time",
        OverriddenOut,
        body=Override,
        problems=refusals,
        versioned=True,
    )
    yield Route(
        "DELETE",
        f"{PATH}/{{name}}/override",
        Access.ADMIN,
        calls.lift,
        "end an override before its time",
        KnobsOut,
        Named,
        problems=refusals,
        versioned=True,
    )


def _reply(now: KnobsNow) -> Reply:
    return Reply(KnobsOut.model_validate(now), now.version)
