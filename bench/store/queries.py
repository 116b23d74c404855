"""What the commands ask of a history: each is run in this process as it would be typed, with --json, and timed.

Belongs here: the command lines, the stopwatch. Never: what a command asks, the arithmetic.

Starting Python, making the parser of all commands and drawing a table are not in it; opening the history and getting
its questions ready are, as each run does so anew. `report` and `db check` read all there is of a stretch on purpose,
and a long list takes as long as it is: some of these are timed beside the others, and count for no goal.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import typer.main

from bench.store.fill import NODE
from bench.store.year import DECISIONS, Year
from controller.__main__ import app
from controller.cli.histories import reading
from domain.decision import Status

TARIFF = "--per-kwh 0.8 --per-gpu-hour 12 --per-network-gb 0.5"


@dataclass(frozen=True, slots=True)
class Query:
    """`line` as one would type it, without the history; `counts` for the goal."""

    line: str
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds of each repetition."""

    line: str
    counts: bool
    ms: tuple[float, ...]
    cpu_ms: tuple[float, ...]
    """CPU time of this process in them: what other processes do does not count."""
    answer_bytes: int


def time_all(path: Path, year: Year, times: int) -> list[Timed]:
    """Each command so often, on a connection of its own each time. Raises HistoryUnavailable or SettingsError."""
    changes = asyncio.run(_changes(path, year))
    return [_timed(query, path, times) for query in queries(year, changes)]


def _timed(query: Query, path: Path, times: int) -> Timed:
    command, arguments = typer.main.get_command(app), [*shlex.split(query.line), "--db", str(path), "--json"]
    ms, cpu_ms = [], []
    for _ in range(times):
        started_s, started_cpu_s = time.perf_counter(), time.process_time()
        with contextlib.redirect_stdout(io.StringIO()) as answer:
            command.main(arguments, standalone_mode=False)
        ms.append((time.perf_counter() - started_s) * 1e3)
        cpu_ms.append((time.process_time() - started_cpu_s) * 1e3)
    return Timed(query.line, query.counts, tuple(ms), tuple(cpu_ms), len(answer.getvalue()))


async def _changes(path: Path, year: Year) -> list[int]:
    """Numbers of two changes that took effect, an old one and the newest."""
    async with reading(str(path)) as history:
        old = await history.decisions.next(after_id=year.size.of(DECISIONS) // 10, status=Status.APPLIED)
        new = await history.decisions.select(limit=1, status=Status.APPLIED)
        return [one.id for one in (old, *new) if one is not None]


def queries(year: Year, changes: Sequence[int]) -> Iterator[Query]:
    """All of them. `changes` are numbers of decisions to explain."""
    for options in _decisions(year):
        yield Query(f"decisions {options}".rstrip())
    yield Query("decisions --limit 1000", counts=False)
    for number in changes:
        yield Query(f"explain {number}")
    for moment in (year.since + (year.until - year.since) / 10, year.until - timedelta(minutes=7)):
        yield Query(f"at {_typed(moment)}")
    for back in ("24h", "30d", "366d"):
        yield Query(f"times --since {back}")
    for options in (
        "--since 24h",
        "--since 30d",
        "--since 366d",
        "--since 24h --compare 48h..24h --compare 72h..48h",
        "--since 24h --by setting",
        "--since 30d --by max_num_seqs",
        "--since 366d --by max_num_seqs",
        "--since 366d --by setting",
    ):
        yield Query(f"cost {options} {TARIFF}")
    yield Query("report --since 1h", counts=False)


def _decisions(year: Year) -> Iterator[str]:
    """Every filter; those that match nothing must look at every number there is."""
    early, later = (year.since + (year.until - year.since) / part for part in (10, 9))
    yield from (
        "",
        "--changes",
        "--knob max_num_seqs",
        "--policy static",
        "--reason hold_at_floor",
        "--outcome worse",
        "--status failed",
        "--status diverged",
        f"--node {NODE}",
        f"--node {NODE} --status diverged",
        "--since 24h",
        "--since 366d",
        f"--until {_typed(early)}",
        f"--since {_typed(early)} --until {_typed(later)} --knob max_num_seqs --outcome worse",
        f"--before {year.size.of(DECISIONS) // 2}",
    )


def _typed(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M}"
