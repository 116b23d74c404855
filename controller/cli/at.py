"""`vllm-governor at`: what was in force and what was measured at a moment.

Belongs here: the arguments, the JSON. Never: queries, how it looks (at_table.py).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from controller import clock
from controller.cli import names
from controller.cli.histories import StoreConfig, StoreDb, moment, reading
from controller.cli.plain_json import dumps
from domain.errors import SettingsError
from domain.stretch import Reading
from store.moments import Moment


@dataclass(frozen=True, slots=True)
class Then:
    """One engine then; `reading` None: nothing was measured by then, or it is no longer kept."""

    at: datetime
    moment: Moment
    reading: Reading | None


def at(
    text: Annotated[
        str,
        typer.Argument(metavar="MOMENT", help="A time as 2026-01-31T08:00 (UTC without a zone), or 8h: so long ago."),
    ],
    db: StoreDb = None,
    config: StoreConfig = None,
    node: Annotated[str | None, typer.Option(help="Only this node, where several share the history.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each node, with every signal.")] = False,
) -> None:
    """Show which values the knobs had at a moment, since when, and what was measured then.

    Examples:

      vllm-governor at 2026-01-31T08:00 --db /var/lib/vllm-governor/vllm-governor.db

      vllm-governor at 8h --db vllm-governor.db --node gpu1:8000
    """
    when = moment(text, clock.now().wall, "MOMENT")
    found = asyncio.run(_load(db, config, when, node))
    if not found:
        raise SettingsError(
            f"cannot tell what held at {when:%Y-%m-%d %H:%M}: no engine{f' of {node}' if node else ''} had been met by "
            "then; `vllm-governor decisions` shows what there is"
        )
    if as_json:
        for one in found:
            typer.echo(dumps(to_json(one)))
    else:
        from controller.cli import at_table  # the daemon, which lists this command too, draws no tables

        at_table.show(found)


async def _load(db: str | None, config: Path | None, when: datetime, node: str | None) -> list[Then]:
    async with reading(db, config) as history:
        moments = await history.moments.at(when, node)
        if not moments:
            await names.check(history, node=node)
        return [Then(when, one, await history.readings.at(when, one.run.node)) for one in moments]


def to_json(one: Then) -> dict[str, Any]:
    """All of it; a knob's `value` null is unknown, "no limit" says itself."""
    run = one.moment.run
    return {
        "at": one.at.isoformat(),
        "node": run.node,
        "run": {
            "id": run.id,
            "boot_id": run.boot_id,
            "engine_url": run.engine_url,
            "vllm_version": run.vllm_version,
            "started_at": run.started_at.isoformat(),
        },
        "knobs": {
            held.knob: {
                "value": (held.value if held.value is not None else "no limit") if held.known else None,
                "decision": None if held.decision is None else held.decision.id,
                "decided_at": None if held.decision is None else held.decision.decision.at.isoformat(),
            }
            for held in one.moment.values
        },
        "reading": None
        if one.reading is None
        else {
            "at": one.reading.at.isoformat(),
            "resolution_s": one.reading.resolution_s,
            "means": dict(one.reading.means),
            "highs": dict(one.reading.highs),
        },
    }
