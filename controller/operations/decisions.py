"""What was decided, why, and what came of it.

Belongs here: pages of decisions, one with all that explains it, outcomes by policy. Never: SQL, how it looks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from controller.operations.readings import check_span
from controller.operations.refusal import Kind, Refused
from domain.audit import Action
from domain.decision import Status
from store.decisions import Which
from store.history import History, StoredDecision, StoredRun

MOST_A_PAGE = 500
DEFAULT_A_PAGE = 100
MOST_NUMBER = 2**63
"""SQLite and PostgreSQL know no larger integer."""


@dataclass(frozen=True, slots=True)
class Page:
    """Newest first. `older` is what to ask with as `before_id` for the next page; None: there is none."""

    rows: tuple[StoredDecision, ...]
    older: int | None


@dataclass(frozen=True, slots=True)
class Explained:
    """One decision with its run and its neighbours on the same knob: what it followed, what followed it."""

    stored: StoredDecision
    run: StoredRun | None
    before: StoredDecision | None
    """The change of this knob before it."""
    after: StoredDecision | None
    """The one after."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What came of the changes of one policy on one knob: verdict to count; `waiting` are not judged yet."""

    policy: str
    knob: str
    verdicts: Mapping[str, int]
    undone: int
    waiting: int


@dataclass(frozen=True, slots=True)
class OutcomesSince:
    """All that was applied since then."""

    since: datetime
    until: datetime
    tallies: tuple[Tally, ...]
    judged: tuple[StoredDecision, ...]
    """The newest that were judged, newest first."""


class Decisions:
    """Reads alone. Raises HistoryUnavailable."""

    def __init__(self, history: History) -> None:
        self._history = history

    async def page(self, limit: int = DEFAULT_A_PAGE, **which: Unpack[Which]) -> Page:
        """The newest of those. Raises Refused (INVALID) for a limit out of 1 to MOST_A_PAGE."""
        doing = "list decisions"
        if not 1 <= limit <= MOST_A_PAGE:
            reason = f"limit = {limit} is not within 1 and {MOST_A_PAGE}"
            raise Refused(Kind.INVALID, doing, reason, "ask for a page of fewer", "limit")
        for name, number in (("before_id", which.get("before_id")), ("after_id", which.get("after_id"))):
            if number is not None and not 0 <= number < MOST_NUMBER:
                raise Refused(Kind.INVALID, doing, f"{name} = {number} is no number of a decision", "send one", name)
        since, until = which.get("since"), which.get("until")
        if since is not None and until is not None:
            check_span(doing, since, until)
        found = await self._history.decisions.select(limit=limit + 1, **which)
        rows = tuple(reversed(found))[:limit]
        return Page(rows, rows[-1].id if len(found) > limit else None)

    async def explain(self, number: int) -> Explained:
        """Raises Refused (UNKNOWN)."""
        found = await self._history.decisions.one(number) if 0 < number < MOST_NUMBER else None
        if found is None:
            remedy = "the list of decisions says which there are"
            raise Refused(Kind.UNKNOWN, f"explain decision {number}", "there is none of that number", remedy)
        stored, run = found
        node, knob = stored.decision.node, stored.decision.knob
        before = await self._history.decisions.select(
            limit=1, before_id=stored.id, node=node, knob=knob, status=Status.APPLIED
        )
        after = await self._history.decisions.next(after_id=stored.id, node=node, knob=knob, status=Status.APPLIED)
        return Explained(stored, run, before[0] if before else None, after)

    async def by_uid(self, uid: str) -> Explained:
        """As the events name it, before it has a number. Raises Refused (UNKNOWN): not written yet, or none such."""
        number = await self._history.decisions.number(uid)
        if number is None:
            reason = "the history has none of that uid, or not yet"
            raise Refused(Kind.UNKNOWN, f"explain decision {uid}", reason, "try again in a moment")
        return await self.explain(number)

    async def outcomes(self, since: datetime, until: datetime, node: str | None = None) -> OutcomesSince:
        """What came of the changes from `since` to before `until`."""
        check_span("tell what came of changes", since, until)
        applied = await self._history.decisions.select(since=since, until=until, node=node, status=Status.APPLIED)
        groups: dict[tuple[str, str], list[StoredDecision]] = defaultdict(list)
        for row in applied:
            groups[row.decision.policy, row.decision.knob].append(row)
        tallies = tuple(_tally(policy, knob, rows) for (policy, knob), rows in sorted(groups.items()))
        judged = tuple(row for row in reversed(applied) if row.decision.outcome is not None)[:DEFAULT_A_PAGE]
        return OutcomesSince(since, until, tallies, judged)

    async def actions(
        self, since: datetime | None = None, until: datetime | None = None, limit: int = DEFAULT_A_PAGE
    ) -> list[Action]:
        """The audit's newest entries, oldest first."""
        if not 1 <= limit <= MOST_A_PAGE:
            reason = f"limit = {limit} is not within 1 and {MOST_A_PAGE}"
            raise Refused(Kind.INVALID, "list actions", reason, "ask for fewer", "limit")
        return await self._history.audit.actions(since=since, until=until, limit=limit)


def _tally(policy: str, knob: str, rows: list[StoredDecision]) -> Tally:
    outcomes = [outcome for row in rows if (outcome := row.decision.outcome) is not None]
    counts = Counter(one.verdict.value for one in outcomes)
    undone = sum(one.undo for one in outcomes)
    return Tally(policy, knob, dict(counts), undone, len(rows) - len(outcomes))
