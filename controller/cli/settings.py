"""`vllm-governor settings` and `reload`: the settings that the running daemon goes by.

Belongs here: the calls, their answers in words. Never: reading a settings file.
"""

from __future__ import annotations

import typer

from controller.cli.daemon import AsJson, Config, Token, Url, Where, ask
from controller.cli.plain_json import dumps


def settings(config: Config = None, url: Url = None, token_file: Token = None) -> None:
    """Print every setting that is in force, as JSON, and which of them were changed at run time.

    Examples:

      vllm-governor settings | jq .settings.engine

      vllm-governor settings | jq .over_file
    """
    typer.echo(dumps(ask(Where(config, url, token_file), "GET", "settings")))


def reload(config: Config = None, url: Url = None, token_file: Token = None, as_json: AsJson = False) -> None:
    """Have the daemon read its settings file again, as SIGHUP does. A file that cannot be used changes nothing.

    Examples:

      vllm-governor reload --config /etc/vllm-governor/config.toml
    """
    found = ask(Where(config, url, token_file), "POST", "settings/reload")
    if as_json:
        typer.echo(dumps(found))
        return
    typer.echo(f"Read again: {found['source']}.")
    for what, keys in (
        ("In force from now on", found["changed"]),
        ("At the next start of the daemon", found["at_next_start"]),
        ("Changed at run time, and staying over the file", found["over_file"]),
    ):
        if keys:
            typer.echo(f"{what}: {', '.join(keys)}.")
    if not found["changed"]:
        typer.echo("Nothing that counts at once is another.")
