"""`vllm-governor times`: how long each setting of the knobs was in force.

Belongs here: the arguments, the JSON. Never: queries, how it looks (times_table.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from controller import clock
from controller.cli import names
from controller.cli.histories import StoreConfig, StoreDb, in_order, moment, reading
from controller.cli.plain_json import dumps

Setting = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Times:
    """Each setting with the seconds measured under it, the longest first; an empty setting: not known."""

    since: datetime
    until: datetime
    settings: Sequence[tuple[Setting, float]]

    @property
    def measured_s(self) -> float:
        """All of them together."""
        return sum(seconds for _, seconds in self.settings)


def times(
    db: StoreDb = None,
    config: StoreConfig = None,
    since: Annotated[
        str, typer.Option(help="From when on: 24h, 30m, 7d, or a time as 2026-01-31T08:00 (UTC without a zone).")
    ] = "24h",
    until: Annotated[str | None, typer.Option(help="Up to when, written likewise; now if not given.")] = None,
    node: Annotated[str | None, typer.Option(help="Only of this node, where several share the history.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show how long each setting of the knobs was in force; `cost --by setting` tells what each used.

    Examples:

      vllm-governor times --db /var/lib/vllm-governor/vllm-governor.db --since 7d
    """
    now = clock.now().wall
    begin, end = moment(since, now), now if until is None else moment(until, now, "--until")
    in_order(begin, end)
    found = asyncio.run(_load(db, config, begin, end, node))
    if as_json:
        typer.echo(dumps(to_json(found)))
    else:
        from controller.cli import times_table  # the daemon, which lists this command too, draws no tables

        times_table.show(found)


async def _load(db: str | None, config: Path | None, since: datetime, until: datetime, node: str | None) -> Times:
    async with reading(db, config) as history:
        found = await history.ledger.time_by_setting(since, until, node=node)
        if not found:
            await names.check(history, node=node)
        return Times(since, until, found)


def to_json(found: Times) -> dict[str, Any]:
    """All of it; null in a setting is no limit."""
    return {
        "since": found.since.isoformat(),
        "until": found.until.isoformat(),
        "measured_s": found.measured_s,
        "settings": [{"setting": dict(setting), "seconds": seconds} for setting, seconds in found.settings],
    }
