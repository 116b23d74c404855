"""`vllm-governor audit`: who changed what.

Belongs here: the arguments, the call, the lines. Never: making an entry.
"""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.daemon import AsJson, Config, Token, Url, Where, ask
from controller.cli.plain_json import dumps
from controller.cli.words import moment


def audit(
    since: Annotated[
        str | None, typer.Option(help="From when on: 24h, 30m, 7d, or a time as 2026-01-31T08:00.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Up to when, written likewise; now if not given.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many, counted from the newest.")] = 50,
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: AsJson = False,
) -> None:
    """Show who asked for which change, when, and what came of it.

    Examples:

      vllm-governor audit --since 24h
    """
    query: dict[str, str | int | float | list[str]] = {"limit": limit}
    query |= {name: one for name, one in (("since", since), ("until", until)) if one is not None}
    found = ask(Where(config, url, token_file), "GET", "audit", query=query)
    if as_json:
        typer.echo(dumps(found))
        return
    if not found["actions"]:
        typer.echo("Nobody changed anything in that time.")
    for one in found["actions"]:
        asked = {name: value for name, value in one["detail"].items() if value not in ("", None)}
        detail = ", ".join(f"{name} = {dumps(value)}" for name, value in asked.items())
        line = f"{moment(one['at'])} {one['actor']}: {one['action']} {one['target']}"
        typer.echo(line + (f" ({detail})" if detail else "") + f": {one['result']}")
