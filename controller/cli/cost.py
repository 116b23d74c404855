"""`vllm-governor cost`: what the engine's GPUs used, what it did and what that cost, by period or by setting.

Belongs here: the arguments, which columns there are, the JSON. Never: formulas (domain/cost.py), how it looks
(cost_table.py).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from controller import clock
from controller.cli import names, remote
from controller.cli.daemon import Config, Daemon, Token, Url, Where, span
from controller.cli.histories import Db, moment, reading
from controller.cli.plain_json import dumps
from controller.operations.cost import Column, by_setting, of_period
from domain.cost import Figure, Figures, Tariff
from domain.errors import SettingsError
from domain.knobs import TRAITS

DEFAULT_SINCE = "24h"
COMPARE = "--compare"
SETTING = "setting"


def _price(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter("a price is a number of at least 0")
    return value


Price = Annotated[float | None, typer.Option(min=0, callback=_price, help="In place of the tariff's; with --db.")]


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked: periods, or the settings within one."""

    periods: tuple[tuple[datetime, datetime], ...]
    by: tuple[str, ...] | None
    """Knobs to tell settings apart by; empty: all; None: periods are compared."""
    node: str | None


@dataclass(frozen=True, slots=True)
class Prices:
    """Those of the command line; None: as the tariff says."""

    currency: str | None
    per_kwh: float | None
    per_gpu_hour: float | None
    per_network_gb: float | None

    def over(self, tariff: Tariff) -> Tariff:
        """In place of the tariff's."""
        return replace(tariff, **{name: value for name, value in asdict(self).items() if value is not None})

    def refuse_any(self) -> None:
        """The daemon reckons with its own. Raises SettingsError."""
        for name, value in asdict(self).items():
            if value is not None:
                option = f"--{name.replace('_', '-')}"
                raise SettingsError(
                    f"cannot use {option} {value} on the running daemon: it reckons with the prices of its [tariff]; "
                    "read the history itself with --db"
                )


def cost(
    db: Db = None,
    since: Annotated[
        str | None, typer.Option(help="From when on: 24h, 30m, 7d, or a time as 2026-01-31T08:00. 24h if not given.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Up to when, written likewise; now if not given.")] = None,
    compare: Annotated[
        list[str] | None, typer.Option(help="A further column: FROM..TO, as 48h..24h. May be given several times.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="A column for each of the 3 longest settings: `setting`, or a knob's name.")
    ] = None,
    node: Annotated[str | None, typer.Option(help="Of one node, where several share the history.")] = None,
    currency: Annotated[str | None, typer.Option(help="In place of the tariff's; with --db.")] = None,
    per_kwh: Price = None,
    per_gpu_hour: Price = None,
    per_network_gb: Price = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object; numbers are not rounded.")] = False,
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
) -> None:
    """Show the ledger: memory, GPU hours, energy, network, what they cost, and what was done for it.

    Every number was measured; what was not is unknown, and the table says why. The prices are those of the settings'
    tariff.

    Examples:

      vllm-governor cost --since 24h --compare 48h..24h --compare 72h..48h

      vllm-governor cost --since 7d --by max_num_seqs

      vllm-governor cost --db /var/lib/vllm-governor/vllm-governor.db --since 24h --per-kwh 0.8
    """
    now = clock.now().wall
    asked = Ask(_periods(now, since, until, compare or []), _knobs(by, compare), node)
    prices = Prices(currency, per_kwh, per_gpu_hour, per_network_gb)
    if db is not None:
        tariff = prices.over(_tariff(config))
        columns = asyncio.run(_load(db, asked, tariff))
    else:
        prices.refuse_any()
        columns, tariff = asyncio.run(_ask(Where(config, url, token_file), asked))
    if as_json:
        typer.echo(dumps(to_json(columns, tariff)))
    else:
        from controller.cli import cost_table  # the daemon, which lists this command too, draws no tables

        cost_table.show(columns, tariff)


def _periods(
    now: datetime, since: str | None, until: str | None, compare: Sequence[str]
) -> tuple[tuple[datetime, datetime], ...]:
    """That of --since, unless periods are compared and it was not given; then those of --compare."""
    found = []
    if since is not None or until is not None or not compare:
        found.append((moment(since or DEFAULT_SINCE, now), now if until is None else moment(until, now, "--until")))
    for text in compare:
        begin, dots, end = text.partition("..")
        if not dots or not begin.strip():
            raise SettingsError(f"cannot use --compare {text}: a period is written FROM..TO, as 48h..24h")
        found.append((moment(begin, now, COMPARE), moment(end, now, COMPARE) if end.strip() else now))
    for begin_at, end_at in found:
        if begin_at >= end_at:
            raise SettingsError(
                f"cannot use a period from {begin_at:%Y-%m-%d %H:%M} to {end_at:%Y-%m-%d %H:%M}: it ends before it "
                "begins; the earlier time comes first"
            )
    return tuple(found)


def _knobs(by: str | None, compare: Sequence[str] | None) -> tuple[str, ...] | None:
    if by is None:
        return None
    if compare:
        raise SettingsError("cannot use --by with --compare: a table compares either settings or periods")
    names.known(by, "--by", (SETTING, *TRAITS))
    return () if by == SETTING else (by,)


def _tariff(config: Path | None) -> Tariff:
    """The prices, as the settings say where they are named."""
    from controller import settings as settings_module

    prices = settings_module.TariffSettings() if config is None else settings_module.load(config).tariff
    return Tariff(prices.currency, prices.per_kwh, prices.per_gpu_hour, prices.per_network_gb)


async def _load(db: str, asked: Ask, tariff: Tariff) -> list[Column]:
    async with reading(db) as history:
        if asked.by is not None:
            found = await by_setting(history, asked.periods[0], asked.by, asked.node, tariff)
        else:
            found = [await of_period(history, period, asked.node, tariff) for period in asked.periods]
        if not any(column.figures.measured_s for column in found):
            await names.check(history, node=asked.node)
        return found


async def _ask(where: Where, asked: Ask) -> tuple[list[Column], Tariff]:
    daemon = Daemon(where)
    tariff = remote.tariff(await daemon.get("settings"))
    queries = [span(*period, asked.node) for period in asked.periods]
    if asked.by is not None:
        found = await daemon.get("cost/settings", queries[0] | ({"knob": [*asked.by]} if asked.by else {}))
        return [remote.column(one) for one in found["columns"]], tariff
    return [remote.column((await daemon.get("cost", query))["column"]) for query in queries], tariff


def to_json(columns: Sequence[Column], tariff: Tariff) -> dict[str, Any]:
    """All columns as plain values; null is unknown, and `unknown` says why."""
    return {
        "tariff": asdict(tariff),
        "columns": [
            {
                "since": column.since.isoformat(),
                "until": column.until.isoformat(),
                "setting": column.setting,
                "resolution_s": column.resolution_s,
                **_plain(column.figures),
                "notes": list(column.notes),
            }
            for column in columns
        ],
    }


def _plain(made: Figures) -> dict[str, Any]:
    named = [(field.name, getattr(made, field.name)) for field in fields(made)]
    return {
        "figures": {name: one.value if isinstance(one, Figure) else one for name, one in named},
        "unknown": {name: one.why for name, one in named if isinstance(one, Figure) and one.value is None},
    }
