"""`vllm-governor status`: how the daemon, its engine and its sources fare now.

Belongs here: the call. Never: what it answers, how it looks (status_table.py).
"""

from __future__ import annotations

import typer

from controller.cli.daemon import AsJson, Config, Token, Url, Where, ask
from controller.cli.plain_json import dumps


def status(config: Config = None, url: Url = None, token_file: Token = None, as_json: AsJson = False) -> None:
    """Say how the daemon, its engine and its sources fare, and what is wrong with what remedy.

    Exit status 0 as soon as the daemon answers: `--json | jq .problems` tells what is wrong.

    Examples:

      vllm-governor status

      vllm-governor status --config /etc/vllm-governor/config.toml --json | jq -e '.problems == []'
    """
    found = ask(Where(config, url, token_file), "GET", "status")
    if as_json:
        typer.echo(dumps(found))
    else:
        from controller.cli import status_table  # the daemon, which lists this command too, draws no tables

        status_table.show(found)
