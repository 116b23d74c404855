"""A table's place on a page: between `<!-- table NAME -->` and `<!-- end -->`. Belongs here: that. Never: a table."""

from __future__ import annotations

import re


class NoPlace(Exception):
    """The page has no place of that name."""

    def __init__(self, name: str) -> None:
        begin, end = f"<!-- table {name} -->", "<!-- end -->"
        super().__init__(f"it has no place for {name}; add the lines {begin} and {end} where the table is to be")


def has(page: str, name: str) -> bool:
    """Whether the page wants a table of that name."""
    return f"<!-- table {name} -->" in page


def fill(page: str, name: str, table: str) -> str:
    """The page with that table in its place. Raises NoPlace."""
    begin, end = f"<!-- table {name} -->", "<!-- end -->"
    place = re.compile(re.escape(begin) + r"\n.*?" + re.escape(end), re.DOTALL)
    filled, count = place.subn(lambda _: f"{begin}\n{table}\n{end}", page, count=1)
    if count == 0:
        raise NoPlace(name)
    return filled
