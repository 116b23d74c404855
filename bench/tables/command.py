"""`python -m bench tables`: arguments and files. Never here: what a table looks like."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.tables import batching, comparison, phases, summary
from bench.tables.places import NoPlace, fill, has


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: every file's table is on the page. 1: one has no place there, and nothing was written."""
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
            kind = batching if "table" in document else comparison
            text = fill(text, kind.name(document), kind.table(document))
            if kind is comparison and has(text, phases.name(document)):
                text = fill(text, phases.name(document), phases.table(document))
        if options.summary:
            compared = [one for one in documents if one.get("ours")]
            text = fill(text, summary.NAME, summary.table(compared))
    except NoPlace as error:
        print(f"cannot write {options.page}: {error}", file=sys.stderr)
        return 1
    options.page.write_text(text, encoding="utf-8")
    return 0
