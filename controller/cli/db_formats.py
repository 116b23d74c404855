"""The formats of an export. Each keeps what is not known apart from 0, and a time with its zone.

- csv: a head line; an empty cell is not known (or an empty text), `inf` is no limit, mappings and lists are JSON.
- jsonl: an object a line; null is not known, "no limit" as everywhere in this program's JSON.
- parquet: typed columns; null is not known, infinity is no limit, mappings and lists are JSON text.

Belongs here: one class each. Never: which rows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol

from controller.cli.plain_json import dumps
from domain.errors import SettingsError
from store.export import Field, Kind

Rows = Sequence[Sequence[Any]]


class Sheet(Protocol):
    """A file of one table."""

    def write(self, rows: Rows) -> None:
        """Add them."""

    def end(self) -> None:
        """Write what is still to be written. The file stays open: it is the caller's."""


class _Csv:
    def __init__(self, file: BinaryIO, fields: Sequence[Field]) -> None:
        self._fields = fields
        self._text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        self._csv = csv.writer(self._text, lineterminator="\n")
        self._csv.writerow(one.name for one in fields)

    def write(self, rows: Rows) -> None:
        for row in rows:
            self._csv.writerow(_cell(one, value) for one, value in zip(self._fields, row, strict=True))

    def end(self) -> None:
        self._text.detach()


class _JsonLines:
    def __init__(self, file: BinaryIO, fields: Sequence[Field]) -> None:
        self._file = file
        self._fields = fields

    def write(self, rows: Rows) -> None:
        for row in rows:
            values = {one.name: _plain(one, value) for one, value in zip(self._fields, row, strict=True)}
            self._file.write(dumps(values).encode() + b"\n")

    def end(self) -> None:
        self._file.flush()


class _Parquet:
    def __init__(self, file: BinaryIO, fields: Sequence[Field]) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            raise SettingsError(
                "cannot write Parquet: pyarrow is not installed; install vllm-governor[parquet], or take --format csv "
                "or jsonl"
            ) from error
        kinds = {
            Kind.INTEGER: pyarrow.int64(),
            Kind.NUMBER: pyarrow.float64(),
            Kind.TEXT: pyarrow.string(),
            Kind.TIME: pyarrow.timestamp("us", tz="UTC"),
            Kind.JSON: pyarrow.string(),
        }
        self._fields = fields
        self._schema = pyarrow.schema([(one.name, kinds[one.kind]) for one in fields])
        self._table = pyarrow.table
        self._writer = parquet.ParquetWriter(file, self._schema, compression="zstd")

    def write(self, rows: Rows) -> None:
        columns = {
            one.name: [_json(value) if one.kind is Kind.JSON else value for value in values]
            for one, values in zip(self._fields, zip(*rows, strict=True), strict=True)
        }
        self._writer.write_table(self._table(columns, schema=self._schema))

    def end(self) -> None:
        self._writer.close()


FORMATS: Mapping[str, Callable[[BinaryIO, Sequence[Field]], Sheet]] = {
    "csv": _Csv,
    "jsonl": _JsonLines,
    "parquet": _Parquet,
}


@contextmanager
def sheet(format_: str, file: BinaryIO, fields: Sequence[Field]) -> Iterator[Sheet]:
    """A table in `file`, ended at the end. Raises SettingsError where the format needs what is not installed."""
    made = FORMATS[format_](file, fields)
    try:
        yield made
    finally:
        made.end()


def _cell(field: Field, value: Any) -> Any:
    return _json(value) if field.kind is Kind.JSON else _plain(field, value)


def _plain(field: Field, value: Any) -> Any:
    return value.isoformat() if field.kind is Kind.TIME and value is not None else value


def _json(value: Any) -> str | None:
    return None if value is None else dumps(value)
