"""The policies: list, parameters, on and off, back to the file's.

Belongs here: these calls. Never: checking a parameter (controller/operations/policies.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.models.base import Named
from controller.api.models.steering import PoliciesOut, PolicyChangesAsked, PolicyOut, PolicyWanted, Remark
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.policies import Policies
from controller.operations.refusal import Kind

PATH = "/api/v1/policies"
ONE = PATH + "/{name}"


class _Calls:
    """What the rows of the table do."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies

    async def show(self, _call: Call[None, None]) -> PoliciesOut:
        return PoliciesOut.model_validate({"policies": self._policies.all()})

    async def one(self, call: Call[Named, None]) -> PolicyOut:
        return PolicyOut.model_validate(self._policies.one(call.asked.name))

    async def change(self, call: Call[Named, PolicyWanted]) -> PolicyOut:
        body = call.body
        return PolicyOut.model_validate(await self._policies.set(call.who, call.asked.name, body.values, body.comment))

    async def enable(self, call: Call[Named, Remark]) -> PolicyOut:
        return PolicyOut.model_validate(await self._policies.enable(call.who, call.asked.name, call.body.comment))

    async def disable(self, call: Call[Named, Remark]) -> PolicyOut:
        return PolicyOut.model_validate(await self._policies.disable(call.who, call.asked.name, call.body.comment))

    async def reset(self, call: Call[PolicyChangesAsked, None]) -> PolicyOut:
        return PolicyOut.model_validate(await self._policies.reset(call.who, call.asked.name, call.asked.key))


def policy_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""
    calls = _Calls(operations.policies)
    yield Route("GET", PATH, Access.READ, calls.show, "every policy with its parameters", PoliciesOut)
    yield Route("GET", ONE, Access.READ, calls.one, "one policy", PolicyOut, Named, problems=(Kind.UNKNOWN,))
    refusals = (Kind.UNKNOWN, Kind.INVALID, Kind.CONFLICT, Kind.UNAVAILABLE)
    said = "change parameters"
    yield Route("PATCH", ONE, Access.ADMIN, calls.change, said, PolicyOut, Named, PolicyWanted, problems=refusals)
    for word, handler in (("enable", calls.enable), ("disable", calls.disable)):
        yield Route(
            "POST",
            f"{ONE}/{word}",
            Access.ADMIN,
            handler,
            f"{word} a policy",
            PolicyOut,
            Named,
            Remark,
            body_needed=False,
            problems=refusals,
        )
    path, said = f"{ONE}/changes", "back to the file's parameters"
    yield Route("DELETE", path, Access.ADMIN, calls.reset, said, PolicyOut, PolicyChangesAsked, problems=refusals)
