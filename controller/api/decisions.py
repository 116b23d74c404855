"""Decisions, page by page and one with its explanation; outcomes; the audit.

Belongs here: these calls. Never: reading the history.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from controller import clock
from controller.api.models.decisions import (
    AuditAsked,
    AuditOut,
    DecisionAsked,
    DecisionsAsked,
    DecisionsOut,
    ExplainedOut,
    OutcomesOut,
    RunOut,
    SpanAsked,
    TallyOut,
    all_stored,
    maybe,
    stored,
)
from controller.api.routes import Access, Call, Route
from controller.operations.application import Operations
from controller.operations.decisions import Decisions
from controller.operations.refusal import Kind
from store.decisions import Which

DAY = timedelta(days=1)
LONGEST_NUMBER = 18


class _Calls:
    """What the rows of the table do."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def page(self, call: Call[DecisionsAsked, None]) -> DecisionsOut:
        found = await self._decisions.page(call.asked.limit, **_which(call.asked))
        return DecisionsOut(decisions=all_stored(found.rows), older=found.older)

    async def explain(self, call: Call[DecisionAsked, None]) -> ExplainedOut:
        name = call.asked.id
        numbered = name.isdecimal() and len(name) <= LONGEST_NUMBER
        found = await self._decisions.explain(int(name)) if numbered else await self._decisions.by_uid(name)
        return ExplainedOut(
            decision=stored(found.stored),
            run=None if found.run is None else RunOut.model_validate(found.run),
            before=maybe(found.before),
            after=maybe(found.after),
        )

    async def outcomes(self, call: Call[SpanAsked, None]) -> OutcomesOut:
        until = call.asked.until or clock.now().wall
        found = await self._decisions.outcomes(call.asked.since or until - DAY, until, call.asked.node)
        tallies = [TallyOut.model_validate(one) for one in found.tallies]
        return OutcomesOut(since=found.since, until=found.until, tallies=tallies, judged=all_stored(found.judged))

    async def audit(self, call: Call[AuditAsked, None]) -> AuditOut:
        asked = call.asked
        return AuditOut.model_validate(
            {"actions": await self._decisions.actions(asked.since, asked.until, asked.limit)}
        )


def decision_routes(operations: Operations) -> Iterator[Route]:
    """The rows of the table."""
    calls = _Calls(operations.decisions)
    bad = (Kind.INVALID, Kind.UNAVAILABLE)
    path, said = "/api/v1/decisions", "what was decided and why, newest first"
    yield Route("GET", path, Access.READ, calls.page, said, DecisionsOut, DecisionsAsked, problems=bad)
    path, said = "/api/v1/decisions/{id}", "one decision with all that explains it"
    found = (Kind.UNKNOWN, *bad)
    yield Route("GET", path, Access.READ, calls.explain, said, ExplainedOut, DecisionAsked, problems=found)
    path, said = "/api/v1/outcomes", "what came of the changes"
    yield Route("GET", path, Access.READ, calls.outcomes, said, OutcomesOut, SpanAsked, problems=bad)
    path, said = "/api/v1/audit", "what operators asked for"
    yield Route("GET", path, Access.READ, calls.audit, said, AuditOut, AuditAsked, problems=bad)


def _which(asked: DecisionsAsked) -> Which:
    return {
        "before_id": asked.before,
        "since": asked.since,
        "until": asked.until,
        "node": asked.node,
        "knob": asked.knob,
        "policy": asked.policy,
        "reason": asked.reason,
        "status": asked.status,
        "verdict": asked.outcome,
        "changes_only": asked.changes,
    }
