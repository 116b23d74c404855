"""`vllm-governor db check | prune | export | migrate`: looking after a history.

Belongs here: the arguments of the four. Never: what they do (controller/cli/db_*.py, loaded when one is run).
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from controller.cli.histories import in_order, moment
from domain.errors import SettingsError
from store.export import Exported, Wanted
from store.prune import Prunable

app = typer.Typer(help="Look after a history: check, prune, export, migrate it.", no_args_is_help=True)

Db = Annotated[str | None, typer.Option(help="Path of the SQLite file, or a SQLAlchemy URL.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command()
def check(
    db: Db = None,
    full: Annotated[
        bool, typer.Option("--full", help="Hold the indexes against their tables too: takes several times as long.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, the sizes in bytes.")] = False,
) -> None:
    """Say what is in a history, how large it is and whether it is whole. Exits with 1 where a fault was found.

    A daemon may be writing it meanwhile.

    Examples:

      vllm-governor db check --db /var/lib/vllm-governor/vllm-governor.db

      vllm-governor db check --db vllm-governor.db --json | jq .findings
    """
    from controller.cli.db_check import run

    if asyncio.run(run(db, full=full, as_json=as_json)):
        raise typer.Exit(1)


@app.command()
def prune(
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Delete what is older: a length of time as 90d, or a time.")
    ],
    db: Db = None,
    table: Annotated[list[Prunable] | None, typer.Option(help="Only this table; may be given again.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    vacuum: Annotated[
        bool,
        typer.Option("--vacuum", help="Then rewrite the file without the free room; nothing else can write meanwhile."),
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete old rows, a few at a time, so that a daemon's writes come in between.

    What still fires, waits to be delivered or is referred to stays, whatever its age. The room is used for new rows;
    only --vacuum gives it back to the disk.

    Examples:

      vllm-governor db prune --db /var/lib/vllm-governor/vllm-governor.db --older-than 90d --dry-run

      vllm-governor db prune --db vllm-governor.db --older-than 30d --table recordings --table readings --yes
    """
    from controller.cli.db_prune import Pruning, run

    now = datetime.now(UTC)
    before = moment(older_than, now, "--older-than")
    if before > now:
        raise SettingsError(f"cannot use --older-than {older_than}: that lies ahead")
    tables = tuple(one for one in Prunable if not table or one in table)
    asyncio.run(run(db, Pruning(before, tables, vacuum=vacuum, dry=dry_run, ask=not yes)))


@app.command()
def export(
    table: Annotated[Exported, typer.Option(help="Which rows.")],
    db: Db = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is standard output.")
    ] = "-",
    format: Annotated[  # noqa: A002
        Literal["csv", "jsonl", "parquet"] | None, typer.Option(help="As the file's ending says, else jsonl.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Not before: 24h, 30d, or a time as 2026-01-31T08:00.")] = None,
    until: Annotated[str | None, typer.Option(help="Before this; the same forms.")] = None,
    node: Annotated[str | None, typer.Option(help="Only this daemon's rows.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write rows to a file for other programs. A file is complete or not there at all.

    Examples:

      vllm-governor db export --db vllm-governor.db --table decisions --since 30d -o decisions.csv

      vllm-governor db export --db vllm-governor.db --table readings --format jsonl | gzip > readings.jsonl.gz

      vllm-governor db export --db postgresql://governor@db/fleet --table ledger --node gpu1:8000 -o ledger.parquet
    """
    from controller.cli.db_export import Target, run

    now = datetime.now(UTC)
    begin = None if since is None else moment(since, now)
    end = None if until is None else moment(until, now, "--until")
    in_order(begin, end)
    target = Target.named(None if output == "-" else Path(output), format, force=force)
    rows = asyncio.run(run(db, Wanted(table, begin, end, node), target))
    if target.path is not None:
        typer.echo(f"Wrote {rows:,} rows of {table} to {target.path}.")


@app.command()
def migrate(db: Db = None, yes: Yes = False) -> None:
    """Bring a history of an older version to this version's schema. There is no way back but a copy.

    The daemon does the same at its start.

    Examples:

      vllm-governor db migrate --db /var/lib/vllm-governor/vllm-governor.db
    """
    from controller.cli.db_migrate import run

    asyncio.run(run(db, ask=not yes))
