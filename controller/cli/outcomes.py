"""`vllm-governor outcomes`: what came of the changes.

Belongs here: the arguments, the call. Never: judging, how it looks (outcomes_table.py).
"""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.daemon import AsJson, Config, Token, Url, Where, ask
from controller.cli.plain_json import dumps

Since = Annotated[
    str | None, typer.Option(help="From when on: 24h, 30m, 7d, or a time as 2026-01-31T08:00. 24h if not given.")
]
Until = Annotated[str | None, typer.Option(help="Up to when, written likewise; now if not given.")]
Node = Annotated[str | None, typer.Option(help="Of this node, where several share the history.")]


def outcomes(
    since: Since = None,
    until: Until = None,
    node: Node = None,
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: AsJson = False,
) -> None:
    """Show what came of the changes, by policy and knob, and the newest that were judged.

    Examples:

      vllm-governor outcomes --since 7d
    """
    query = {name: one for name, one in (("since", since), ("until", until), ("node", node)) if one is not None}
    found = ask(Where(config, url, token_file), "GET", "outcomes", query=query)
    if as_json:
        typer.echo(dumps(found))
    else:
        from controller.cli import outcomes_table  # the daemon, which lists this command too, draws no tables

        outcomes_table.show(found)
