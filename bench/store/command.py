"""`python -m bench store`: arguments, the tables, the JSON line. Never here: a measurement."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.setup import places
from bench.store import size, summary
from bench.store.fill import fill, rows_to_write
from bench.store.queries import TARIFF, time_all
from bench.store.ticks import Ticks
from bench.store.writing import hand_over, most
from bench.store.year import Size, Year
from domain.errors import GovernorError

GOALS = {
    "file_mb": (500.0, "MB"),
    "query_ms_max": (100.0, "ms"),
    "writer_x": (100.0, "x"),
    "tick_wait_ms_max": (1.0, "ms"),
}
AT_LEAST = ("writer_x",)
QUICK_PART = 0.05
TIMES = 7
"""Each command."""
OFFERED_X = 100.0
"""The normal rate is a tick a second."""


def main(arguments: Sequence[str]) -> int:
    """Runs the bench; exit code 0 when it ran, whatever came out."""
    parser = argparse.ArgumentParser(prog="python -m bench store", description="A year's history: size, speed, writer.")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PART * 100:.0f} %% of a year, 5 s of writing")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line of its own")
    parser.add_argument(
        "--folder", type=Path, default=places.ROOT / "var", help="where the file is made (default var/)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the file there")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        with _place(options.folder, keep=options.keep) as path:
            result = _run(path, QUICK_PART if options.quick else 1.0, 5.0 if options.quick else 30.0)
    except GovernorError as error:
        print(f"cannot go on: {error}", file=sys.stderr)
        return 1
    _show(result)
    if options.json:
        print(json.dumps(result), flush=True)
    return 0


@contextmanager
def _place(folder: Path, *, keep: bool) -> Iterator[Path]:
    if keep:
        yield folder / f"bench-store-{datetime.now(UTC):%Y%m%d-%H%M%S}.db"
        return
    with tempfile.TemporaryDirectory(prefix="bench-store-", dir=folder) as name:
        yield Path(name) / "history.db"


def _run(path: Path, part: float, writing_s: float) -> dict[str, object]:
    """The parts one after another, so that none disturbs the other."""
    year = Year(datetime.now(UTC).replace(minute=0, second=0, microsecond=0), Size(part))
    result: dict[str, object] = {"part_of_a_year": part}
    with _told("making the year", rows_to_write(year)) as told:
        asyncio.run(fill(path, year, lambda table, rows: told(rows, table)))
    result |= summary.of_file(size.size_bytes(path), size.by_table(path))
    _freeze()
    with _told("asking"):
        result |= summary.of_queries(time_all(path, year, TIMES))
    ticks = Ticks(year)
    _freeze()
    with _told("handing over at 100 x") as told:
        found = asyncio.run(hand_over(path, ticks, writing_s, OFFERED_X, lambda said: told(0, said)))
        result |= summary.of_hand_over(found)
    with _told("writing the most") as told:
        result |= summary.of_most(asyncio.run(most(path, ticks, writing_s, lambda said: told(0, said))))
    return result


def _freeze() -> None:
    """What the bench holds is not gone through anew in what it times: a daemon does the same once it has started, a
    command's process ends before it would do so.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def _told(title: str, total: float | None = None) -> Iterator[Callable[[float, str], None]]:
    """A live line on a terminal; to a file the last state alone goes."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[said]}"))
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=total, said="")
        yield lambda done, said: progress.update(task, advance=done, said=said)
        progress.update(task, total=1, completed=1)


def _show(result: Mapping[str, object]) -> None:
    console = Console()
    queries = Table("vllm-governor …", "answer", "median", "of it CPU", "longest", title="the commands, with --json")
    timed = result["queries"]
    assert isinstance(timed, dict)
    for command, one in timed.items():
        answer, median = f"{one['answer_bytes'] / 1e3:.1f} KB", f"{one['median_ms']:.1f} ms"
        longest = f"{one['max_ms']:.1f} ms" + ("" if one["counts"] else ", no goal")
        queries.add_row(command.removesuffix(TARIFF), answer, median, f"{one['cpu_ms']:.1f} ms", longest)
    console.print(queries)
    goals = Table("figure", "measured", "goal", "", title="the whole")
    for name, (goal, unit) in GOALS.items():
        value = result[name]
        assert isinstance(value, float)
        at_least = name in AT_LEAST
        met = value >= goal if at_least else value <= goal
        goals.add_row(name, f"{value:g} {unit}", f"{'at least' if at_least else 'at most'} {goal:g} {unit}",
                      "met" if met else "missed")  # fmt: skip
    console.print(goals)
    for name in (
        "file_mb_by_table",
        *(n for n in result if n not in GOALS and n not in ("queries", "file_mb_by_table")),
    ):
        console.print(f"{name}: {result[name]}", highlight=False)
