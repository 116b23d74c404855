"""`python -m bench tables`: arguments and files. Never here: what a table looks like."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.tables import batching, comparison, cpu, generators, phases, real, seeds, summary
from bench.tables.places import NoPlace, fill, has


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: of every file a table is on the page. 1: one has no place there, and nothing was written."""
    parser = argparse.ArgumentParser(
        prog="python -m bench tables", description="Write the tables of a page from the JSON of `bench compare`."
    )
    parser.add_argument("page", type=Path, help="as docs/compare.md")
    parser.add_argument("json", type=Path, nargs="+", help="what `bench compare --out` wrote")
    parser.add_argument("--summary", action="store_true", help="and one of all of them, where the page has its place")
    options = parser.parse_args(arguments)
    text = options.page.read_text(encoding="utf-8")
    try:
        documents = [json.loads(path.read_text(encoding="utf-8")) for path in options.json]
        for document in documents:
            made = _tables(document)
            wanted = [name for name in made if has(text, name)]
            if not wanted:
                raise NoPlace(next(iter(made)))
            for name in wanted:
                text = fill(text, name, made[name](document))
        if options.summary:
            compared = [one for one in documents if one.get("ours")]
            text = fill(text, summary.NAME, summary.table(compared))
    except NoPlace as error:
        print(f"cannot write {options.page}: {error}", file=sys.stderr)
        return 1
    options.page.write_text(text, encoding="utf-8")
    return 0


def _tables(document: Mapping[str, Any]) -> dict[str, Callable[[Mapping[str, Any]], str]]:
    """All that can be made of it, by the name of the place, its own first."""
    match "real" if document.get("clock") == "real" else document.get("table"):
        case "real":
            return {real.name(document): real.table}
        case "cpu":
            return {cpu.name(document): cpu.table}
        case "generators":
            return {generators.name(document): generators.table}
        case "batching":
            return {
                batching.name(document): batching.table,
                "seeds schemes": seeds.schemes,
                "seeds ledger": seeds.ledger,
            }
        case "load":
            return {"seeds load": seeds.load}
        case _:
            return {comparison.name(document): comparison.table, phases.name(document): phases.table}
