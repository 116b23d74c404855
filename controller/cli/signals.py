"""`vllm-governor signals`: every signal now, with what it means.

Belongs here: the call. Never: what a signal means (domain/view.py), how it looks (signals_table.py).
"""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from controller.cli.daemon import AsJson, Config, Token, Url, Where, ask
from controller.cli.plain_json import dumps
from domain.errors import SettingsError
from domain.view import SIGNALS


def _complete(incomplete: str) -> list[str]:
    return [name for name in SIGNALS if name.startswith(incomplete)]


def signals(
    names: Annotated[
        list[str] | None, typer.Argument(help="Only these; all without one.", autocompletion=_complete)
    ] = None,
    config: Config = None,
    url: Url = None,
    token_file: Token = None,
    as_json: AsJson = False,
) -> None:
    """Show what was measured at the last tick; - is not known.

    Examples:

      vllm-governor signals

      vllm-governor signals running waiting kv_cache_usage_ratio
    """
    for name in names or ():
        if name not in SIGNALS:
            near = difflib.get_close_matches(name, SIGNALS, 1)
            hint = f"did you mean {near[0]}?" if near else "without a name all are shown"
            raise SettingsError(f"cannot show the signal {name}: there is none of that name; {hint}")
    found = dict(ask(Where(config, url, token_file), "GET", "signals"))
    if names:
        found["signals"] = [one for one in found["signals"] if one["name"] in names]
    if as_json:
        typer.echo(dumps(found))
    else:
        from controller.cli import signals_table  # the daemon, which lists this command too, draws no tables

        signals_table.show(found, latencies=not names)
