"""`vllm-governor db export`: rows into a file, as CSV, JSON lines or Parquet.

Belongs here: where it goes to, and that a file is whole or not there. Never: formats (db_formats.py), queries.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from controller.cli import names
from controller.cli.db_formats import FORMATS, sheet
from controller.cli.histories import reading
from domain.errors import CannotWrite, SettingsError
from store import health
from store.database import sqlite_path
from store.export import Wanted, batches, fields


@dataclass(frozen=True, slots=True)
class Target:
    """`path` None: standard output."""

    path: Path | None
    format: str
    force: bool

    @classmethod
    def named(cls, path: Path | None, format_: str | None, *, force: bool) -> Target:
        """Without a format the file's ending says it. Raises SettingsError."""
        ending = "" if path is None else path.suffix.removeprefix(".")
        chosen = format_ or (ending if ending in FORMATS else "jsonl")
        if path is None and chosen == "parquet" and sys.stdout.isatty():
            raise SettingsError("cannot write Parquet to a terminal: name a file with -o FILE")
        if path is not None and path.exists() and not force:
            raise SettingsError(
                f"cannot write {path}: it is there already; name another file, or replace it with --force"
            )
        return cls(path, chosen, force)


async def run(db: str | None, wanted: Wanted, target: Target) -> int:
    """Write the rows; answers how many. Raises SettingsError, HistoryUnavailable, CannotWrite."""
    rows = 0
    async with reading(db) as history:
        _refuse_itself(target.path, sqlite_path(history.url))
        if wanted.node is not None:
            await names.check(history, node=wanted.node)
        with _opened(target.path) as file, sheet(target.format, file, fields(wanted.table)) as into:
            async for batch in batches(history.database, wanted):
                into.write(batch)
                rows += len(batch)
    return rows


def _refuse_itself(path: Path | None, database: Path | None) -> None:
    """Neither the history nor what belongs to it is written over, whatever it is called. Raises SettingsError."""
    if path is None or database is None:
        return
    for name in ("", *health.COMPANIONS):
        own = Path(f"{database}{name}")
        same = os.path.realpath(path) == os.path.realpath(own)
        if same or (path.exists() and own.exists() and path.samefile(own)):
            raise SettingsError(f"cannot write {path}: that is the history itself; name another file")


@contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # whoever read it has seen enough
        raise
    except OSError as error:
        # What is still in the buffer would fail once more as the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise CannotWrite(
            f"cannot write to standard output: {error.strerror or error}; what is there is not all"
        ) from error


@contextmanager
def _opened(path: Path | None) -> Iterator[BinaryIO]:
    """A file under another name that takes its own at the end, on the disk by then; or standard output."""
    if path is None:
        with _standard_output() as file:
            yield file
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            with part.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror or error}; nothing is left of it") from error
