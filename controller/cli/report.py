"""`vllm-governor report`: what was wanted, what withheld it, what it would have gained.

Belongs here: the arguments, the JSON. Never: adding up (report_figures), how it looks (report_table).
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from controller import clock
from controller.cli import report_figures as figures
from controller.cli.histories import StoreConfig, StoreDb, moment, one_node, reading
from controller.cli.plain_json import dumps
from controller.history.recording import recorded


def report(
    db: StoreDb = None,
    config: StoreConfig = None,
    since: Annotated[str, typer.Option(help="How far back: 8h, 30m, 2d, or a time as 2026-01-31T08:00.")] = "8h",
    node: Annotated[str | None, typer.Option(help="Of this node, where several share the history.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say what would have been done, how often, what withheld it, and what it would have gained.

    Meant for mode observe, before you let the governor act; in mode auto it also counts what the changes did.

    Examples:

    vllm-governor report --db /var/lib/vllm-governor/vllm-governor.db --since 8h

    vllm-governor report --db vllm-governor.db --json | jq '.gains'
    """
    until = clock.now().wall
    made = asyncio.run(_load(db, config, moment(since, until), until, node))
    if as_json:
        typer.echo(dumps(to_json(made)))
    else:
        from controller.cli import report_table  # the daemon, which lists this command too, draws no tables

        report_table.show(made)


async def _load(
    db: str | None, config: Path | None, since: datetime, until: datetime, node: str | None
) -> figures.Report:
    async with reading(db, config) as history:
        node = await one_node(history, node, since)
        decisions = await history.decisions.select(since=since, node=node)
        made, wishes = figures.begin(since, until, decisions)
        reader = figures.Reader(made, wishes)
        async for _, frame in recorded(history, since, node):
            reader.take(frame)
    return made


def to_json(made: figures.Report) -> dict[str, Any]:
    """The report as plain values; null is unknown."""
    watched = made.watched
    return {
        "since": made.since.isoformat(),
        "until": made.until.isoformat(),
        "decisions_by_mode": dict(made.modes),
        "watched": {
            "seconds": watched.seconds,
            "busy_s": watched.busy_s,
            "short_s": watched.short_s,
            "requests": watched.requests,
            "over_ratio": {
                latency.value: {"share": over / samples if samples else None, "samples": samples, "allowed": allowed}
                for latency, (over, samples, allowed) in watched.over.items()
            },
            "model_error_ratio": watched.model_error_s / watched.model_s if watched.model_s else None,
            "model_s": watched.model_s,
        },
        "wishes": [
            {
                "policy": one.policy,
                "knob": one.knob,
                "times": one.times,
                "applied": one.applied,
                "lasted_s": one.lasted_s,
                "lowest": one.lowest,
                "highest": one.highest,
                "reasons": dict(one.reasons),
                "withheld": dict(one.withheld),
            }
            for one in made.wishes
        ],
        "gains": {
            knob: {
                "open_s": gain.open_s,
                "known_s": gain.known_s,
                "unknown_s": dict(gain.unknown_s),
                "throughput_ratio": gain.throughput_ratio,
                "step_s": gain.step_s(wanted=False),
                "step_s_wanted": gain.step_s(wanted=True),
            }
            for knob, gain in made.gains.items()
        },
        "outcomes": [
            {"policy": policy, "knob": knob, **figures.verdict_counts(counts)}
            for (policy, knob), counts in made.verdicts.items()
        ],
        "undone": made.undone,
    }
