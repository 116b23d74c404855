"""Policies in a terminal.

Belongs here: how they look. Never: where they come from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from controller.cli.terminal import console
from controller.cli.words import moment

Doc = Mapping[str, Any]


def show_all(policies: Sequence[Doc]) -> None:
    """A line for each."""
    table = Table()
    table.add_column("policy", no_wrap=True)
    for name in ("on", "runs"):
        table.add_column(name)
    table.add_column("about", ratio=1)
    table.add_column("changed at run time")
    for one in policies:
        on = {True: "on", False: "off", None: "-"}[one["enabled"]]
        changed = ", ".join(change["key"] for change in one["changed"])
        own = " (third party)" if one["third_party"] else ""
        row = (one["name"] + own, on, "yes" if one["runs"] else "no", one["about"], changed)
        table.add_row(*map(escape, row), style="" if one["runs"] else "dim")
    console().print(table)


def show(one: Doc) -> None:
    """One with its parameters."""
    terminal = console()
    terminal.print(f"[bold]{escape(one['name'])}[/bold]: {escape(one['about'])}")
    table = Table()
    for name in ("key", "value", "default"):
        table.add_column(name, no_wrap=name == "key")
    table.add_column("meaning", ratio=1)
    changed = {change["key"] for change in one["changed"]}
    for key, value, default, meaning in _rows(one["settings"], one["defaults"], one["schema"], one["schema"]):
        style = "bold" if key in changed else ""
        table.add_row(escape(key), escape(_said(value)), escape(_said(default)), escape(meaning), style=style)
    terminal.print(table)
    for change in one["changed"]:
        by = change["by"]
        why = f" ({by['comment']})" if by["comment"] else ""
        terminal.print(
            escape(
                f"{change['key']} was set at run time by {by['actor']} at {moment(by['at'])} UTC{why}; the file says "
                f"{_said(change['file'])}."
            )
        )


def _rows(values: Doc, defaults: Any, schema: Doc, whole: Doc, prefix: str = "") -> Iterator[tuple[str, Any, Any, str]]:
    properties = _resolved(schema, whole).get("properties", {})
    for key, value in values.items():
        described = properties.get(key, {})
        default = defaults.get(key) if isinstance(defaults, Mapping) else None
        if isinstance(value, Mapping) and _resolved(described, whole).get("properties"):
            yield from _rows(value, default, described, whole, f"{prefix}{key}.")
        else:
            yield prefix + key, value, default, described.get("description", "")


def _resolved(schema: Doc, whole: Doc) -> Doc:
    """What a reference in a JSON schema leads to."""
    for branch in (schema, *schema.get("anyOf", ()), *schema.get("allOf", ())):
        if "$ref" in branch:
            found: Doc = whole.get("$defs", {}).get(str(branch["$ref"]).rsplit("/", 1)[-1], {})
            return found
    return schema


def _said(value: Any) -> str:
    """As the settings file writes it."""
    if isinstance(value, list) and len(value) > 3:
        return f"{len(value)} entries"
    return "-" if value is None else json.dumps(value, ensure_ascii=False)
