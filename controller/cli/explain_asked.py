"""What `explain` shows, asked of the running daemon.

Belongs here: which calls, putting their answers together. Never: words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from controller.cli import remote
from controller.cli.daemon import Daemon, Where, span
from controller.history.around import Around, Side, mean, reach, stretches
from domain.decision import Status
from domain.stretch import Reading
from store.history import StoredDecision, StoredRun

POINTS = 2000
APPLIED = 500


async def ask(where: Where, number: int, window_s: float) -> tuple[StoredDecision, StoredRun | None, Around]:
    """One decision with what was measured around it. Raises DaemonRefused, DaemonUnreachable."""
    daemon = Daemon(where)
    found = await daemon.get(f"decisions/{number}")
    row, run = remote.decision(found["decision"]), remote.run(found["run"])
    earlier, later = (None if found[name] is None else remote.decision(found[name]) for name in ("before", "after"))
    if row.decision.status is not Status.APPLIED:
        return row, run, Around(earlier, later, None, None, ())
    since, until = reach(row, window_s)
    query = span(since, until, row.decision.node) | {"status": Status.APPLIED.value, "limit": APPLIED}
    applied = [remote.decision(one) for one in (await daemon.get("decisions", query))["decisions"]]
    near = stretches(row, applied[::-1], window_s)
    before, after = [await _side(daemon, *part, row.decision.node) for part in (near.before, near.after)]
    return row, run, Around(earlier, later, before, after, near.others)


async def _side(daemon: Daemon, since: datetime, until: datetime, node: str) -> Side:
    if since >= until:
        return Side(since, until, None)
    found = await daemon.get("history", span(since, until, node) | {"points": POINTS})
    return Side(since, until, mean(list(_readings(found)), until))


def _readings(found: Mapping[str, Any]) -> Iterator[Reading]:
    """Points of the chart as readings; each weighs as long as it is."""
    for place, (at, seconds) in enumerate(zip(found["at"], found["seconds"], strict=True)):
        means = {name: column[place] for name, column in found["means"].items() if column[place] is not None}
        yield Reading(datetime.fromisoformat(at), means, resolution_s=seconds, samples=seconds)
