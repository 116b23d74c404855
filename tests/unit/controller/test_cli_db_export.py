"""`vllm-governor db export`: what is in the files is what is in the history."""

from __future__ import annotations

import asyncio
import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from typer.testing import CliRunner, Result

from controller.__main__ import app
from controller.cli import db_export
from controller.cli.db_export import Target
from domain.errors import CannotWrite, HistoryUnavailable, SettingsError
from domain.knobs import NO_LIMIT
from store.database import Database, database_url
from store.export import Exported, Kind, Wanted, batches, fields
from tests.filled import LATE, OLD, filled

FORMATS = ("csv", "jsonl", "parquet")
Row = dict[str, Any]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("template") / "h.db")


@pytest.fixture
def file(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(template, tmp_path))


def export(file: Path, table: str, *options: str | Path) -> Result:
    return CliRunner().invoke(app, ["db", "export", "--db", str(file), "--table", table, *map(str, options)])


def stored(file: Path, table: Exported) -> list[Row]:
    async def read() -> list[Row]:
        database = Database(database_url(str(file)), "")
        names = [one.name for one in fields(table)]
        rows = [dict(zip(names, row, strict=True)) async for batch in batches(database, Wanted(table)) for row in batch]
        await database.engine.dispose()
        return rows

    return asyncio.run(read())


def read_back(path: Path, table: Exported) -> list[Row]:
    """The file as another program reads it, its values as the history has them."""
    match path.suffix:
        case ".csv":
            with path.open(encoding="utf-8", newline="") as text:
                return [_typed(row, table, _of_text) for row in csv.DictReader(text)]
        case ".jsonl":
            lines = path.read_text(encoding="utf-8").splitlines()
            return [_typed(json.loads(line), table, _of_json) for line in lines]
        case _:
            rows: Sequence[Row] = parquet.read_table(path).to_pylist()
            return [_typed(row, table, _of_column) for row in rows]


def _typed(row: Row, table: Exported, of: Any) -> Row:
    kinds = {one.name: one.kind for one in fields(table)}
    assert list(row) == list(kinds)
    return {name: of(kinds[name], value) for name, value in row.items()}


def _of_text(kind: Kind, value: str) -> Any:
    if value == "":
        return None
    readers: dict[Kind, Any] = {
        Kind.INTEGER: int,
        Kind.NUMBER: float,
        Kind.TEXT: str,
        Kind.TIME: datetime.fromisoformat,
        Kind.JSON: json.loads,
    }
    return readers[kind](value)


def _of_json(kind: Kind, value: Any) -> Any:
    if kind is Kind.TIME and value is not None:
        return datetime.fromisoformat(value)
    return NO_LIMIT if value == "no limit" else value


def _of_column(kind: Kind, value: Any) -> Any:
    return json.loads(value) if kind is Kind.JSON and value is not None else value


@pytest.mark.parametrize("table", Exported)
@pytest.mark.parametrize("format_", FORMATS)
def test_what_comes_back_out_of_a_file_is_what_is_stored(
    file: Path, tmp_path: Path, table: Exported, format_: str
) -> None:
    path = tmp_path / f"out.{format_}"
    done = export(file, table, "-o", path)
    assert done.exit_code == 0, (done.output, done.exception)
    expected = stored(file, table)
    assert done.output == f"Wrote {len(expected)} rows of {table} to {path}.\n"
    found = read_back(path, table)
    if format_ == "csv":  # which has no word for a text that is empty
        expected = [{name: None if value == "" else value for name, value in row.items()} for row in expected]
    assert found == expected
    assert len(found) >= 2


def test_what_is_not_known_is_not_0_and_no_limit_is_said(file: Path, tmp_path: Path) -> None:
    for format_ in FORMATS:
        export(file, "decisions", "-o", tmp_path / f"out.{format_}")
    line = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert (line["old"], line["observed"], line["at"]) == ("no limit", None, OLD.isoformat())
    with (tmp_path / "out.csv").open(newline="") as text:
        cells = next(csv.DictReader(text))
    assert (cells["old"], cells["observed"], cells["at"]) == ("inf", "", OLD.isoformat())
    schema = parquet.read_schema(tmp_path / "out.parquet")
    assert [str(schema.field(name).type) for name in ("id", "at", "old", "evidence")] == [
        "int64",
        "timestamp[us, tz=UTC]",
        "double",
        "string",
    ]


def test_a_span_and_a_node_are_chosen(file: Path) -> None:
    def lines(*options: str) -> int:
        done = export(file, "decisions", *options)
        assert done.exit_code == 0, done.exception
        return len(done.stdout.splitlines())

    assert lines() == 6
    assert lines("--since", "2d") == 3
    assert lines("--until", LATE.astimezone(UTC).isoformat()) == 3
    assert lines("--node", "gpu1:8000") == 6
    assert lines("--node", "gpu1:8000", "--since", "1m") == 0


def test_nothing_found_is_a_whole_file_without_rows(file: Path, tmp_path: Path) -> None:
    for format_ in FORMATS:
        path = tmp_path / f"out.{format_}"
        assert export(file, "decisions", "--since", "1m", "-o", path).exit_code == 0
        assert read_back(path, Exported.DECISIONS) == []


def test_a_file_that_is_there_is_replaced_only_by_force(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("mine")
    done = export(file, "runs", "-o", path)
    assert isinstance(done.exception, SettingsError)
    assert "replace it with --force" in str(done.exception)
    assert path.read_text() == "mine"
    assert export(file, "runs", "-o", path, "--force").exit_code == 0
    assert len(read_back(path, Exported.RUNS)) == 2


def test_a_file_is_whole_or_as_it_was(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaking(database: Database, wanted: Wanted) -> Any:
        async for batch in batches(database, wanted, 2):
            yield batch
            raise HistoryUnavailable("cannot use the history: it broke in the middle")

    monkeypatch.setattr(db_export, "batches", breaking)
    for format_ in FORMATS:
        path = tmp_path / f"out.{format_}"
        path.write_text("mine")
        done = export(file, "decisions", "-o", path, "--force")
        assert isinstance(done.exception, HistoryUnavailable)
        assert path.read_text() == "mine"
    assert sorted(one.suffix for one in tmp_path.iterdir() if one.name.startswith((".out", "out"))) == sorted(
        f".{one}" for one in FORMATS
    )


def test_a_folder_that_is_not_there_is_named(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "none" / "out.csv"
    done = export(file, "runs", "-o", path)
    assert isinstance(done.exception, CannotWrite)
    assert str(done.exception) == f"cannot write {path}: No such file or directory; nothing is left of it"


def test_without_its_library_parquet_is_refused_with_what_to_install(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = export(file, "runs", "-o", tmp_path / "out.parquet")
    assert isinstance(done.exception, SettingsError)
    assert "install vllm-governor[parquet]" in str(done.exception)
    assert not (tmp_path / "out.parquet").exists()


def test_the_format_is_the_one_named_then_the_endings() -> None:
    assert Target.named(Path("a.csv"), None, force=True).format == "csv"
    assert Target.named(Path("a.csv"), "parquet", force=True).format == "parquet"
    assert Target.named(Path("a.txt"), None, force=True).format == "jsonl"
    assert Target.named(None, None, force=False).format == "jsonl"


@pytest.mark.parametrize("format_", FORMATS)
def test_a_pipe_takes_every_format(file: Path, tmp_path: Path, format_: str) -> None:
    program = [sys.executable, "-m", "controller", "db", "export", "--db", str(file), "--table", "ledger"]
    done = subprocess.run([*program, "--format", format_], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    path = tmp_path / f"piped.{format_}"
    path.write_bytes(done.stdout)
    assert read_back(path, Exported.LEDGER) == stored(file, Exported.LEDGER)


def test_a_reader_that_ends_early_ends_the_export_quietly(tmp_path: Path) -> None:
    file = filled(tmp_path / "h.db", decisions=3000)
    program = f"{sys.executable} -m controller db export --db {file} --table decisions | head -1"
    done = subprocess.run(["bash", "-c", program], capture_output=True, timeout=60)
    assert len(done.stdout.splitlines()) == 1
    assert b"Traceback" not in done.stderr
