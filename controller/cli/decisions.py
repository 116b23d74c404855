"""`vllm-governor decisions`: the history as a table or as JSON lines, from the daemon or from where it lies.

Belongs here: the arguments, the JSON. Never: SQL, how a table looks.
"""

from __future__ import annotations

import asyncio
import difflib
from dataclasses import asdict
from typing import Annotated, Any

import typer

from controller import clock
from controller.cli import names, remote
from controller.cli.daemon import Config, Daemon, Query, Token, Url, Where
from controller.cli.histories import Db, in_order, moment, reading
from controller.cli.plain_json import dumps
from domain.decision import Reason, Status
from domain.errors import SettingsError
from domain.outcome import Verdict
from store.decisions import Which
from store.history import StoredDecision

A_PAGE = 500
"""As many as the daemon answers at a time."""


def decisions(
    db: Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, with the evidence.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many, counted from the newest.")] = 50,
    since: Annotated[
        str | None, typer.Option(help="From when on: 8h, 30m, 2d, or a time as 2026-01-31T08:00 (UTC without a zone).")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Up to when, written likewise.")] = None,
    knob: Annotated[str | None, typer.Option(help="Only this knob, for example max_num_seqs.")] = None,
    policy: Annotated[str | None, typer.Option(help="Only of this policy, for example batch_resize.")] = None,
    reason: Annotated[str | None, typer.Option(help="Only for this reason, for example grow_demand.")] = None,
    status: Annotated[Status | None, typer.Option(help="Only those of which this became.")] = None,
    outcome: Annotated[Verdict | None, typer.Option(help="Only changes with this verdict.")] = None,
    node: Annotated[str | None, typer.Option(help="Only of this node, where several share the history.")] = None,
    changes: Annotated[bool, typer.Option("--changes", help="Leave the holds out.")] = False,
    before: Annotated[int | None, typer.Option(metavar="ID", help="Older ones than this: the page before.")] = None,
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
) -> None:
    """Show what was decided, why, and what the engine then read.

    Examples:

      vllm-governor decisions --changes

      vllm-governor decisions --db /var/lib/vllm-governor/vllm-governor.db --since 12h --changes

      vllm-governor decisions --db vllm-governor.db --knob max_num_seqs --outcome worse

      vllm-governor decisions --db vllm-governor.db --json | jq 'select(.status == "applied")'
    """
    now = clock.now().wall
    which: Which = {
        "since": None if since is None else moment(since, now),
        "until": None if until is None else moment(until, now, "--until"),
        "knob": knob,
        "policy": policy,
        "reason": None if reason is None else _reason(reason),
        "status": status,
        "verdict": outcome,
        "node": node,
        "changes_only": changes,
        "before_id": before,
    }
    in_order(which["since"], which["until"])
    where = Where(config, url, token_file)
    stored = asyncio.run(_load(db, limit, which) if db is not None else _ask(where, limit, which))
    if as_json:
        for row in stored:
            typer.echo(dumps(to_json(row)))
    else:
        from controller.cli import decision_table  # the daemon, which lists this command too, draws no tables

        decision_table.show(stored, asked=any(which.values()), full=len(stored) == limit)


async def _load(db: str, limit: int, which: Which) -> list[StoredDecision]:
    async with reading(db) as history:
        found = await history.decisions.select(limit=limit, **which)
        if not found:
            await names.check(history, node=which.get("node"), knob=which.get("knob"), policy=which.get("policy"))
        return found


async def _ask(where: Where, limit: int, which: Which) -> list[StoredDecision]:
    """Page by page, from the newest back; the oldest comes first in the answer."""
    daemon, found = Daemon(where), list[StoredDecision]()
    query: dict[str, str | int | float | list[str]] = {**_query(which)}
    while len(found) < limit:
        page = await daemon.get("decisions", {**query, "limit": min(A_PAGE, limit - len(found))})
        found += [remote.decision(one) for one in page["decisions"]]
        if page["older"] is None:
            break
        query["before"] = page["older"]
    return found[::-1]


def _query(which: Which) -> Query:
    """As the REST API names it."""
    since, until = which.get("since"), which.get("until")
    named = {
        "since": None if since is None else since.isoformat(),
        "until": None if until is None else until.isoformat(),
        "outcome": which.get("verdict"),
        "before": which.get("before_id"),
        "changes": "true" if which.get("changes_only") else None,
        **{name: which.get(name) for name in ("knob", "policy", "reason", "status", "node")},
    }
    return {name: str(one) for name, one in named.items() if one is not None}


def _reason(text: str) -> Reason:
    try:
        return Reason(text)
    except ValueError as error:
        close = difflib.get_close_matches(text, [reason.value for reason in Reason], n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "the column `reason` shows them"
        raise SettingsError(f"cannot use --reason {text}: there is no such reason; {hint}") from error


def to_json(row: StoredDecision) -> dict[str, Any]:
    """All of a decision."""
    return {"id": row.id, **asdict(row.decision), "at": row.decision.at.isoformat()}
