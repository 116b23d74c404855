"""The ledger in a terminal: the seeds' table with measured numbers.

Belongs here: words, rows and units. Never: figures of its own.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Sequence

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from controller.cli.terminal import console
from controller.cli.words import limit
from controller.operations.cost import Column
from domain.cost import Figure, Figures, Tariff

UNKNOWN = "unknown"
COARSE = {3600: "hour", 86_400: "day"}
PARTLY = 0.01
"""Energy that is known for this much less of the time than the rest is worth a sentence."""

Row = tuple[str, Callable[[Figures], Figure], Callable[[float], str]]


def show(columns: Sequence[Column], tariff: Tariff) -> None:
    """Print it to the standard output."""
    terminal = console()
    for part in parts(columns, tariff):
        terminal.print(part)


def parts(columns: Sequence[Column], tariff: Tariff) -> Iterator[RenderableType]:
    """What the columns are, the table, and what there is to say of it."""
    names = string.ascii_uppercase[: len(columns)]
    for name, column in zip(names, columns, strict=False):
        yield escape(_heading(name, column))
    if not any(column.figures.measured_s for column in columns):
        yield "Nothing was measured in that time."
        return
    table = Table(show_header=len(columns) > 1)
    table.add_column("", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    for index, section in enumerate((_costs(tariff), _efficiency(tariff), _use())):
        if index:
            table.add_section()
        for label, figure, words in section:
            table.add_row(label, *(_cell(figure(column.figures), words) for column in columns))
    table.add_row("energy measured by", *(column.figures.energy_source or UNKNOWN for column in columns))
    yield table
    yield from map(escape, _sentences(names, columns, tariff))


def _heading(name: str, column: Column) -> str:
    period = f"from {column.since:%Y-%m-%d %H:%M} to {column.until:%Y-%m-%d %H:%M} UTC"
    if column.setting is None:
        return f"{name}: {period}"
    values = ", ".join(f"{knob} = {limit(value)}" for knob, value in column.setting.items())
    return f"{name}: {values or 'setting not known'}, {period}"


def _costs(tariff: Tariff) -> list[Row]:
    """The seeds' rows; those without a price are left out, and a sentence says so."""
    money = tariff.currency
    rows: list[Row | None] = [
        ("memory (GB)", lambda f: f.memory_gb, _number),
        ("GPU hours", lambda f: f.gpu_hours, _number),
        (f"energy ({money})", lambda f: f.energy_cost, _number) if tariff.per_kwh is not None else None,
        (f"GPUs ({money})", lambda f: f.gpu_cost, _number) if tariff.per_gpu_hour is not None else None,
        (f"network ({money})", lambda f: f.network_cost, _number) if tariff.per_network_gb is not None else None,
        (f"total ({money})", lambda f: f.total_cost, _number),
        (f"per 100,000 requests ({money})", lambda f: f.cost_per_100k_requests, _number),
    ]
    return [row for row in rows if row is not None]


def _efficiency(tariff: Tariff) -> list[Row]:
    money = tariff.currency
    return [
        (f"per 1,000 requests ({money})", lambda f: f.cost_per_1k_requests, _number),
        (f"per million generated ({money})", lambda f: f.cost_per_million_generated, _number),
        (f"per million tokens ({money})", lambda f: f.cost_per_million_tokens, _number),
        ("J per generated token", lambda f: f.joules_per_token, _number),
        ("QPS/W", lambda f: f.requests_per_joule, _number),
        ("KV reuse", lambda f: f.reuse_ratio, _share),
    ]


def _use() -> list[Row]:
    return [
        ("energy (kWh)", lambda f: f.energy_kwh, _number),
        ("of it idle (kWh)", lambda f: f.idle_kwh, _number),
        ("network (GB)", lambda f: f.network_gb, _number),
        ("requests", lambda f: f.requests, _count),
        ("prompt tokens", lambda f: f.prompt_tokens, _count),
        ("generated tokens", lambda f: f.generation_tokens, _count),
        ("measured", lambda f: f.coverage_ratio, _share),
        ("energy known", lambda f: f.energy_coverage_ratio, _share),
    ]


def _cell(figure: Figure, words: Callable[[float], str]) -> str:
    return UNKNOWN if figure.value is None else words(figure.value)


def _number(value: float) -> str:
    """Four digits that count, never as a power of ten."""
    if value == 0 or abs(value) >= 1000:
        return _count(value)
    text = f"{value:#.4g}"
    return f"{value:.7f}" if "e" in text else text.rstrip(".")


def _count(value: float) -> str:
    """Whole, as long as that can be read."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= 10 * size:
            return f"{value / size:,.2f} {letter}"
    return f"{value:,.0f}"


def _share(value: float) -> str:
    return f"{value:.1%}"


def _sentences(names: str, columns: Sequence[Column], tariff: Tariff) -> list[str]:
    """What is unknown and why, what is left out, where a figure is a part, what broke the measuring."""
    said = []
    rows = (*_costs(tariff), *_efficiency(tariff), *_use())
    for name, column in zip(names, columns, strict=False):
        if not column.figures.measured_s:
            said.append(f"{name}: nothing was measured in that time.")
            continue
        causes: dict[str, list[str]] = {}
        for label, figure, _ in rows:
            found = figure(column.figures)
            if found.value is None:
                causes.setdefault(found.why or "", []).append(label)
        said += [f"{name}: {why}: {', '.join(labels)} unknown." for why, labels in causes.items()]
        whole, energy = column.figures.coverage_ratio.value, column.figures.energy_coverage_ratio.value
        if whole and energy and energy < whole * (1 - PARTLY):
            said.append(f"{name}: the energy is that of {energy / whole:.0%} of the measured time.")
        if (stretch := COARSE.get(column.resolution_s)) is not None:
            said.append(f"{name}: some of it is kept by the {stretch}, so its edges are those of whole {stretch}s.")
        said += [f"{name}: {note}" for note in column.notes]
    prices = {"energy": tariff.per_kwh, "GPU hours": tariff.per_gpu_hour, "network": tariff.per_network_gb}
    missing = [what for what, price in prices.items() if price is None]
    if 0 < len(missing) < len(prices):
        said.append(f"Not in any cost, for want of a price: {', '.join(missing)}.")
    return said
